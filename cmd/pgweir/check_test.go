package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/admission"
)

// configFile writes a configuration beside an empty list of users.
func configFile(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"pgweir.toml": text, "userlist.txt": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "pgweir.toml")
}

// plain makes an output independent of the directory.
func plain(path, text string) string {
	return strings.ReplaceAll(text, filepath.Dir(path)+"/", "")
}

func TestCheckAutomaticBudget(t *testing.T) {
	path := configFile(t, `
[upstream.main]
url = "${DATABASE_URL}"
[database."*"]
`)
	environment := map[string]string{"DATABASE_URL": "postgres://pgweir:hunter2@10.0.0.5/postgres"}
	r := pgweir(t, environment, "check", path)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "plan-auto.txt", plain(path, r.stdout))

	r = pgweir(t, environment, "check", path, "--max-connections", "200", "--superuser-reserved=5", "--reserved", "10", "--others", "4", "--role-limit", "3")
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "plan-facts.txt", plain(path, r.stdout))
}

func TestCheckConfiguredBudget(t *testing.T) {
	path := configFile(t, `
listen = ["0.0.0.0:6432", "/run/pgweir"]
max_client_conn = 100
shutdown_timeout = "none"
drain_delay = "0s"
[auth]
auth_type = "trust"
[upstream.main]
url = "postgres://pgweir:hunter2@/postgres?host=/run/postgresql"
budget = 20
slots = 8
connect_rate = 50
server_lifetime = "none"
server_idle_timeout = "none"
[upstream.spare]
url = "postgres://pgweir:hunter2@10.0.0.6/postgres"
budget = 2
[database.shop]
upstream = "main"
dbname = "shop_v2"
[[workload]]
max_wait = "500ms"
max_waiting = 50
`)
	r := pgweir(t, nil, "check", path)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "plan-fixed.txt", plain(path, r.stdout))
}

func TestCheckWorkloads(t *testing.T) {
	path := configFile(t, `
http = "0.0.0.0:6433"
admin_http = "/run/pgweir/admin.sock"
client_idle_timeout = "1h"
so_reuseport = true
[console]
admin_users = ["dba"]
stats_users = ["monitor", "exporter"]
[upstream.main]
url = "postgres://pgweir:hunter2@10.0.0.5,10.0.0.6/postgres?target_session_attrs=read-write"
budget = 64
reserve = 6
reserve_users = ["dba"]
slots = 32
instances = 2
[database.shop]
user = "shop_owner"
password_file = "userlist.txt"
[database.reports]
user = "reporter"
password_command = "echo secret"
[database."*"]
user = "anybody"
[[workload]]
name = "api"
match = { role = ["app"], application_name = ["web-*", "worker"], client = ["10.0.0.0/8", "10.1.2.3", "unix"] }
share = "60%"
min_pool_size = 2
[[workload]]
name = "batch"
match = { role = ["cron"] }
patient = true
share = "33.33%"
lendable = "100%"
borrow = "25%"
[[workload]]
name = "default"
pool_mode = "session"
`)
	r := pgweir(t, nil, "check", path)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "plan-workloads.txt", plain(path, r.stdout))
}

func TestCheckGuard(t *testing.T) {
	path := configFile(t, `
compat = "pgbouncer"
listen = ["127.0.0.1:6432", "/run/pgweir"]
[upstream.main]
url = "postgres://pgweir:hunter2@10.0.0.5/postgres"
budget = 43
instances = 2
[database."*"]
[[workload]]
name = "checkout"
match = { role = ["shop"] }
class = "critical_plus"
max_wait = { critical = "1s", sheddable = "100ms" }
deadline = "1500ms"
[[workload]]
name = "web"
match = { role = ["web"] }
mode = "dry_run"
max_wait = { critical = "5s" }
deadline = "learn"
[[workload]]
name = "crawler"
match = { role = ["crawler"] }
mode = "off"
class = "sheddable"
`+orders()+`
[role.shop]
max_class = "critical_plus"
promote_share = "100%"
[role.reporting]
max_class = "sheddable_plus"
statement_timeout = "60s"
lock_timeout = "2500ms"
ceiling = true
max_clients = 40
max_server_connections = 5
[role.batch]
transaction_timeout = "1h"
[[rate]]
name = "free plan"
per = "tenant"
rate = "150/s"
burst = 15
match = { role = ["web"], tenant = ["free-*", "trial"] }
escalation = "delay"
[[rate]]
name = "others"
per = "tenant"
rate = "10/m"
match = { tenant = ["x-*"] }
escalation = "block"
burst = 3
[[rate]]
per = "role"
rate = "500ms/s"
[[rate]]
per = "client"
rate = "90s/h"
burst = "20s"
match = { client = ["10.0.0.0/8"], database = ["shop"] }
mode = "dry_run"
[[rate]]
per = "client"
rate = "2500/s"
mode = "off"
`)
	r := pgweir(t, nil, "check", path)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "plan-guard.txt", plain(path, r.stdout))
}

// orders are workloads, one for each queue that is not the guard's.
func orders() string {
	var b strings.Builder
	for i := range admission.Policies {
		if p := admission.Policy(i); p != admission.Guard {
			fmt.Fprintf(&b, "[[workload]]\nname = %q\nmatch.role = [\"r%d\"]\nshare = \"0%%\"\nqueue = %q\nmax_waiting = 20\n", p, i, p)
		}
	}
	return b.String()
}

func TestCheckReference(t *testing.T) {
	r := pgweir(t, nil, "check", "--reference")
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "reference.md", r.stdout)
}

func TestCheckProblems(t *testing.T) {
	path := configFile(t, `
max_client_con = 100
[upstream.main]
url = "postgres://pgweir:hunter2@10.0.0.5/postgres?sslmode=required"
budget = 0
`)
	r := pgweir(t, nil, "check", path)
	if r.code != exitUsage || r.stdout != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "problems.txt", plain(path, r.stderr))

	r = pgweir(t, nil, "check", filepath.Join(filepath.Dir(path), "absent.toml"))
	if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, "no such file") || !strings.Contains(r.stderr, "\n1 problem\n") {
		t.Errorf("%+v", r)
	}
}

func TestCheckNeverShowsThePassword(t *testing.T) {
	for _, text := range []string{
		"[upstream.main]\nurl = \"postgres://pgweir:hunter2@10.0.0.5/postgres\"\n[database.\"*\"]\n",
		"[upstream.main]\nurl = \"postgres://pgweir:hunter2@10.0.0.5/postgres\"\n",
		"[upstream.main]\nurl = \"postgres://pgweir:hunter2@10.0.0.5/postgres\n",
		"[upstream.main]\nurl = postgres://pgweir:hunter2@10.0.0.5/postgres\n",
		"[upstream.main]\nurl = \"${SECRET}\"\n[database.\"*\"]\n",
		"[upstream.main]\nurl = \"${BROKEN}\"\n[database.\"*\"]\n",
	} {
		environment := map[string]string{"SECRET": "postgres://pgweir:hunter2@10.0.0.5/postgres", "BROKEN": "pgweir:hunter2@10.0.0.5"}
		if r := pgweir(t, environment, "check", configFile(t, text)); strings.Contains(r.stdout+r.stderr, "hunter2") {
			t.Errorf("%s\n%+v", text, r)
		}
	}
}

func TestCheckDefaults(t *testing.T) {
	r := pgweir(t, nil, "check", "--defaults")
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "defaults.toml", r.stdout)
	if again := pgweir(t, nil, "check", configFile(t, r.stdout)); again.code != exitOK {
		t.Errorf("the defaults are no configuration: %+v", again)
	}
}
