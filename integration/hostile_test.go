package integration

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/wire"
)

// SET at the console changes what it says, and not what somebody is writing into the file.
func TestSetLeavesTheFileToReload(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{top: "max_prepared_statements = 100\n"})
	value := func(key string) string {
		t.Helper()
		for line := range strings.Lines(o.console(t, "SHOW CONFIG")) {
			if v := strings.Split(line, "|"); v[0] == key {
				return v[1]
			}
		}
		t.Fatalf("no %s", key)
		return ""
	}
	o.write(t, "half of a") // no configuration at all
	o.console(t, "SET max_client_conn = 777")
	o.rewrite(t, "max_prepared_statements = 100", "max_prepared_statements = 50")
	o.console(t, "SET workload.default.max_waiting = 9")
	if a, b, c := value("max_client_conn"), value("max_prepared_statements"), value("workload.default.max_waiting"); a != "777" || b != "100" || c != "9" {
		t.Errorf("max_client_conn %s, max_prepared_statements %s, max_waiting %s", a, b, c)
	}
	o.console(t, "RELOAD")
	if a, b, c := value("max_client_conn"), value("max_prepared_statements"), value("workload.default.max_waiting"); a == "777" || b != "50" || c == "9" {
		t.Errorf("after RELOAD: max_client_conn %s, max_prepared_statements %s, max_waiting %s", a, b, c)
	}
}

// Without descriptors to spare clients are told so, those who are in go on, and everything
// works again as soon as some have left. Trap 55.
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{})
	login := func() (*rawClient, error) {
		return dialRaw(o.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "database", Value: "app"})
	}
	first, err := login()
	if err == nil {
		err = first.exec("select 1")
	}
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", o.proc.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(o.proc.Pid(), unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = uint64(len(open) + 10)
	if err := unix.Prlimit(o.proc.Pid(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	in := []*rawClient{first}
	for refused := 0; refused < 5; {
		c, err := login()
		if err == nil {
			in = append(in, c)
			continue
		}
		e, ok := errors.AsType[*rawError](err)
		if !ok || e.code != "53300" || !strings.Contains(e.message, "descriptors") {
			t.Fatalf("after %d clients: %v", len(in), err)
		}
		refused++
	}
	if len(in) > 12 {
		t.Fatalf("%d clients are in", len(in))
	}
	for _, c := range in {
		if err := c.exec("select 1"); err != nil {
			t.Error(err)
		}
		_ = c.conn.Close()
	}
	eventually(t, "they have left", func() bool {
		left, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", o.proc.Pid()))
		return err == nil && len(left) < len(open)+5
	})
	if c, err := login(); err != nil {
		t.Errorf("the next client: %v", err)
	} else {
		_ = c.conn.Close()
	}
	o.logged(t, "out of file descriptors", "ulimit")
}
