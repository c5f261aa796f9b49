package integration

import (
	"strings"
	"testing"
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
