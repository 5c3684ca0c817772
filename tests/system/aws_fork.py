"""Runs commands of the AWS CLI, each in a process of its own that is forked from this one. This one has loaded the
program, which takes most of the second that a command takes.

On standard input a line of JSON for each, [words, environment]; on standard output one for each: [status, out, err]."""

import json
import os
import signal
import sys
import tempfile
import traceback

import awscli.clidriver


def become(words, environment, out, err):
    """In the child: what the program's own script does, with that command line, environment and output."""
    signal.alarm(60)
    data = os.environ["AWS_DATA_PATH"]  # which the program has set when it was loaded
    os.environ.clear()
    os.environ.update(environment, AWS_DATA_PATH=data)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.argv = words
    status = 70
    try:
        status = awscli.clidriver.main()
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 (what the interpreter does with it)
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


def text_of(file):
    file.seek(0)
    return file.read().decode()


for line in sys.stdin:
    words, environment = json.loads(line)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            become(words, environment, out, err)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([status, text_of(out), text_of(err)]), flush=True)
