"""The scripts of programs/scripts, written as public training code is: what each is for the judge."""

from generated_runs import Script

SCRIPTS: tuple[Script, ...] = ()
