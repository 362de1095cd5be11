"""What is read from spark-submit's own words, and what of them people see."""

from __future__ import annotations

from sparktf.submit.process import ApplicationReport

ID = "application_1795278152846_0003"


def test_the_application_is_known_before_it_is_submitted() -> None:
    report = ApplicationReport()
    assert not report.note(f"@cluster Submitting application {ID} to ResourceManager\n")
    assert report.application == ID
    assert not report.has_started


def test_states_are_read_from_yarns_reports_whatever_prints_them() -> None:
    report = ApplicationReport()
    assert not report.note(f"@cluster Application report for {ID} (state: ACCEPTED)\n")
    assert (report.state, report.has_started) == ("ACCEPTED", False)
    assert report.note(f"26/11/21 16:33:43 INFO Client: Application report for {ID} (state: RUNNING)\n")
    assert (report.state, report.has_started) == ("RUNNING", True)


def test_diagnostics_are_read_from_the_details_on_one_line() -> None:
    report = ApplicationReport()
    details = ("\t client token: N/A", "\t diagnostics: first\\nsecond", "\t ApplicationMaster host: h", "\t queue: q")
    assert not report.note("@cluster " + "\\n".join(("", *details)) + "\n")
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


PODS = "@cluster Application status for spark-1f2e (phase: {})\n"


def test_of_a_drivers_pod_its_phase_says_whether_it_has_started() -> None:
    report = ApplicationReport()
    assert not report.note("@cluster Waiting for application sparktf churn with application ID spark-1f2e and "
                           "submission ID ml:churn-7-driver to finish...\n")  # fmt: skip
    assert (report.application, report.submission) == ("spark-1f2e", "ml:churn-7-driver")
    seen = []
    for phase in ("Pending", "Running", "Succeeded"):
        report.note(PODS.format(phase))
        seen.append((report.waits, report.has_started))
    assert seen == [(True, False), (False, True), (False, True)]


def test_why_a_drivers_pod_waits_and_how_it_has_ended_is_told_in_a_few_words() -> None:
    report = ApplicationReport()
    state = ("\t container state: waiting", "\t pending reason: ImagePullBackOff")
    report.note("@cluster State changed, new state: " + "\\n".join(("", "\t phase: Pending", *state)) + "\n")
    assert (report.state, report.diagnostics) == ("Pending", "the driver's pod waits: ImagePullBackOff")
    ended = ("\t container state: terminated", "\t exit code: 137", "\t termination reason: OOMKilled")
    report.note("@cluster State changed, new state: " + "\\n".join(("", "\t phase: Failed", *ended)) + "\n")
    assert (report.state, report.diagnostics) == ("Failed", "the driver's pod exited with status 137 (OOMKilled)")
