"""A share of the processor for one process, so that it is the slower one where the load has no core of its own."""

import os

# µs. The kernel hands the share out to each core in slices of 5 ms: one that cannot use all of its slice, because its
# requests wait for the other core, must not keep much of the whole.
PERIOD = 100_000


class Quota:
    """A control group of our own, gone at the end. `share` is in cores."""

    def __init__(self, share):
        own = f"nsgate-bench-{os.getpid()}"
        if os.path.isdir("/sys/fs/cgroup/cpu"):
            self.folder = f"/sys/fs/cgroup/cpu/{own}"
            self.settings = {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": int(share * PERIOD)}
        else:
            self.folder = f"/sys/fs/cgroup/{own}"
            self.settings = {"cpu.max": f"{int(share * PERIOD)} {PERIOD}"}

    def __enter__(self):
        os.mkdir(self.folder)
        try:
            for name, value in self.settings.items():
                self._set(name, value)
        except OSError:
            self.__exit__()
            raise
        return self

    def hold(self, server):
        """From here on; threads and children that are there already too."""
        for pid in server.family():
            self._set("cgroup.procs", pid)

    def _set(self, name, value):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(str(value))

    def __exit__(self, *_):
        # Empty, for the process has been ended.
        os.rmdir(self.folder)
