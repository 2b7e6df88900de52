"""The bucket that the tests of this folder talk to."""

from s3_fixtures import env, server
