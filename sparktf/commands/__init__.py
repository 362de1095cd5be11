"""The words of the console script: commands, options, help, and how shells complete them.

May import the root. Never does what they ask: that is `sparktf.commands.cli`.
"""
