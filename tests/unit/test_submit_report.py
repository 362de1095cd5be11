"""What is read from spark-submit's own words, and what of them people see."""

from __future__ import annotations

from sparktf.submit.process import ApplicationReport

ID = "application_1795278152846_0003"


def test_the_application_is_known_before_it_is_submitted() -> None:
    report = ApplicationReport()
    assert not report.note(f"@yarn Submitting application {ID} to ResourceManager\n")
    assert report.application == ID
    assert not report.has_started


def test_states_are_read_from_yarns_reports_whatever_prints_them() -> None:
    report = ApplicationReport()
    assert not report.note(f"@yarn Application report for {ID} (state: ACCEPTED)\n")
    assert (report.state, report.has_started) == ("ACCEPTED", False)
    assert report.note(f"26/11/21 16:33:43 INFO Client: Application report for {ID} (state: RUNNING)\n")
    assert (report.state, report.has_started) == ("RUNNING", True)


def test_diagnostics_are_read_from_the_details_on_one_line() -> None:
    report = ApplicationReport()
    details = ("\t client token: N/A", "\t diagnostics: first\\nsecond", "\t ApplicationMaster host: h", "\t queue: q")
    assert not report.note("@yarn " + "\\n".join(("", *details)) + "\n")
    assert report.diagnostics == "first\nsecond"


def test_sparks_last_words_in_cluster_mode_are_not_shown() -> None:
    report = ApplicationReport()
    first = (
        f'Exception in thread "main" org.apache.spark.SparkException: Application {ID} finished with failed status\n'
    )
    assert not report.note(first)
    assert not report.note("\tat org.apache.spark.deploy.yarn.Client.run(Client.scala:1404)\n")
    assert report.note("Something else\n")
    assert report.note("\tat of.something.Else\n")
