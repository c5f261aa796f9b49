package child

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is what a process has used so far, over all its threads, those that have ended
// included, to the nanosecond: utime and stime in /proc count in steps of 10 ms. The clock
// is clock_getcpuclockid's.
func CPUTime(pid int) (time.Duration, error) {
	const schedClock = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// RSS is the resident memory of a process in bytes. The kernel's quick counter (VmRSS) is
// kept per core and may be off by hundreds of kB; the sum over the mappings is exact.
func RSS(pid int) (int64, error) {
	for _, source := range []struct{ file, key string }{{"smaps_rollup", "Rss:"}, {"status", "VmRSS:"}} {
		kb, err := field(filepath.Join("/proc", strconv.Itoa(pid), source.file), source.key)
		if err == nil {
			return kb * 1024, nil
		}
		if source.file == "status" {
			return 0, err
		}
	}
	return 0, nil
}

// Wakeups is how often the threads of a process have been put onto a core, roughly: every
// time it left one. Threads that have ended are not in it.
func Wakeups(pid int) (int64, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	if len(tasks) == 0 {
		return 0, fmt.Errorf("process %d has gone", pid)
	}
	var sum int64
	for _, task := range tasks {
		for _, key := range []string{"voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"} {
			n, err := field(task, key)
			if os.IsNotExist(err) {
				continue // a thread that has just ended
			}
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}

// field reads the number behind a key at the start of a line.
func field(file, key string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), key); ok {
			number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, key)
}

// MachineBusy is the CPU time that all processes of this machine, and its kernel, have used
// since it was booted. The kernel counts in steps of 10 ms, for each core.
func MachineBusy() (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return parseBusy(first, tick)
}

// parseBusy sums up the line "cpu user nice system idle iowait irq softirq steal ...", in
// ticks, without what is idle. Guests are contained in user and nice.
func parseBusy(line string, tick time.Duration) (time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var sum int64
	for i, text := range fields[1:9] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		if idle := i == 3 || i == 4; !idle {
			sum += n
		}
	}
	return time.Duration(sum) * tick, nil
}

// LoadAverage is the first number of /proc/loadavg, and 0 if that cannot be read.
func LoadAverage() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}
