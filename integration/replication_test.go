package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// replicated starts a cluster that others may replicate from, and pgweir before it.
func replicated(t *testing.T, p plan) *secured {
	t.Helper()
	p.settings = map[string]string{"wal_level": "logical", "max_wal_senders": "8", "max_replication_slots": "8"}
	p.auth, p.password = "scram-sha-256", "one"
	s := &secured{operated: operate(t, p)}
	s.letReplicate(t, "host")
	return s
}

// letReplicate lets the role app replicate, over what lines of pg_hba.conf call kind.
func (s *secured) letReplicate(t *testing.T, kind string) {
	t.Helper()
	s.hba(t, "local all all trust",
		kind+" replication all 127.0.0.1/32 scram-sha-256", kind+" all all 127.0.0.1/32 scram-sha-256")
	s.sql(t, "postgres", "alter role app replication; select pg_reload_conf()")
}

// program is a client program that runs beside the test.
type program struct {
	*exec.Cmd
	out  bytes.Buffer
	done chan error
}

// start starts a client program; it is ended with the test.
func (s *secured) start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	p := &program{Cmd: s.Command(t.Context(), s.app, name, args...), done: make(chan error, 1)}
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.Wait() }()
	return p
}

// ended waits for the program's end and returns what it has said.
func (p *program) ended(t *testing.T) (string, error) {
	t.Helper()
	select {
	case err := <-p.done:
		return p.out.String(), err
	case <-time.After(patience):
		_ = p.Process.Kill()
		t.Fatal(p.Args, "does not end:", p.out.String())
		return "", nil
	}
}

// receive has pg_receivewal follow the cluster, and waits until it does.
func (s *secured) receive(t *testing.T) *program {
	t.Helper()
	before := s.walSenders(t)
	p := s.start(t, "pg_receivewal", "-w", "-n", "-v", "--no-sync", "-D", t.TempDir())
	s.await(t, "count(*) = "+strconv.Itoa(before+1)+" from pg_stat_replication where state = 'streaming'")
	return p
}

func (s *secured) walSenders(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(s.sql(t, "postgres", "select count(*) from pg_stat_replication"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// identify asks a walsender who it is.
func (s *secured) identify(t *testing.T, replication string) (string, error) {
	t.Helper()
	p := s.start(t, "psql", "-XAtw", "-v", "VERBOSITY=verbose", "-c", "IDENTIFY_SYSTEM", "replication="+replication)
	return p.ended(t)
}

// Postgres's own programs replicate through pgweir. Trap 52.
func TestReplication(t *testing.T) {
	t.Parallel()
	s := replicated(t, plan{slots: 4})
	if _, err := s.Pgbench(t.Context(), s.app, "-i", "-q", "-s", "1"); err != nil {
		t.Fatal(err)
	}
	s.replicates(t)
	t.Run("console", func(t *testing.T) { replicaRows(t, s) })
	t.Run("reload", func(t *testing.T) {
		p := s.receive(t)
		s.rewrite(t, "budget    = 5", "budget    = 4")
		s.console(t, "reload")
		s.sql(t, "postgres", "select pg_switch_wal()")
		s.await(t, "count(*) = 1 from pg_stat_replication where sent_lsn = pg_current_wal_lsn()")
		s.stop(t, p)
		s.write(t, s.text)
		s.console(t, "reload")
	})
	t.Run("cancel", func(t *testing.T) {
		p := s.start(t, "psql", "-XAtw", "-c", "select pg_sleep(600)", "replication=database")
		s.await(t, running("pg_sleep(600)", 1))
		if err := p.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if out, _ := p.ended(t); !strings.Contains(out, "canceling statement due to user request") {
			t.Error(out)
		}
	})
	t.Run("a client that is lost", func(t *testing.T) {
		p := s.start(t, "psql", "-XAtw", "-c", "select pg_sleep(601)", "replication=database")
		s.await(t, running("pg_sleep(601)", 1))
		_ = p.Process.Kill()
		s.await(t, "count(*) = 0 from pg_stat_activity where query like 'select pg_sleep(601)%'")
		<-p.done
	})
	t.Run("places come back", func(t *testing.T) {
		s.await(t, "count(*) = 0 from pg_stat_replication")
		s.benched(t, func() {})
		if got := s.metric(t, `pgweir_replication_connections{upstream="main"}`); got != "0" {
			t.Errorf("%s still replicate", got)
		}
	})
}

// replicates has each of the programs do its work.
func (s *secured) replicates(t *testing.T) {
	for _, kind := range []string{"database", "true", "yes", "on", "1"} {
		if out, err := s.identify(t, kind); err != nil || strings.Count(out, "|") != 3 {
			t.Errorf("replication=%s: %v: %s", kind, err, out)
		}
	}
	if out, err := s.identify(t, "perhaps"); err == nil || !strings.Contains(out, "22023") && !strings.Contains(out, `invalid value for parameter "replication"`) {
		t.Errorf("replication=perhaps: %v: %s", err, out)
	}
	if out, err := s.identify(t, "off"); err == nil || !strings.Contains(out, "42601") {
		t.Errorf("no replication: %v: %s", err, out)
	}
	t.Run("pg_basebackup", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "backup")
		if out, err := s.start(t, "pg_basebackup", "-w", "-D", dir, "-X", "stream", "-c", "fast", "--no-sync").ended(t); err != nil {
			t.Fatal(err, out)
		}
		real, err := filepath.EvalSymlinks(s.Programs.Path("pg_ctl")) // where all of them are
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(real), "pg_verifybackup"), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	t.Run("pg_receivewal", func(t *testing.T) {
		dir := t.TempDir()
		p := s.start(t, "pg_receivewal", "-w", "-n", "-v", "--no-sync", "-D", dir)
		s.await(t, "count(*) = 1 from pg_stat_replication where state = 'streaming'")
		s.sql(t, "app", "create table filler(a int);\nselect pg_switch_wal()")
		eventually(t, "a whole segment", func() bool {
			whole, err := filepath.Glob(filepath.Join(dir, strings.Repeat("?", 24)))
			return err == nil && len(whole) > 0
		})
		s.stop(t, p)
	})
	t.Run("pg_recvlogical", func(t *testing.T) {
		slot := []string{"-w", "-d", "app", "-S", "through"}
		if out, err := s.start(t, "pg_recvlogical", append(slot, "--create-slot", "-P", "test_decoding")...).ended(t); err != nil {
			t.Fatal(err, out)
		}
		file := filepath.Join(t.TempDir(), "changes")
		p := s.start(t, "pg_recvlogical", append(slot, "--start", "-f", file, "-F", "0")...)
		s.psql(t, "create table told(a text)")
		s.psql(t, "insert into told select 'row ' || n from generate_series(1, 5000) n")
		eventually(t, "the changes", func() bool {
			b, err := os.ReadFile(file)
			return err == nil && bytes.Contains(b, []byte("'row 5000'")) && bytes.Count(b, []byte("table public.told: INSERT")) == 5000
		})
		s.stop(t, p)
		if out, err := s.start(t, "pg_recvlogical", append(slot, "--drop-slot")...).ended(t); err != nil {
			t.Fatal(err, out)
		}
	})
}

// stop ends a program as its user does, and waits until its server is gone.
func (s *secured) stop(t *testing.T, p *program) {
	t.Helper()
	_ = p.Process.Signal(syscall.SIGINT) // it may have ended
	if out, err := p.ended(t); err != nil {
		t.Error(err, out)
	}
	s.await(t, "count(*) = 0 from pg_stat_replication")
}

func replicaRows(t *testing.T, s *secured) {
	p := s.receive(t)
	pid := s.sql(t, "postgres", "select pid from pg_stat_replication")
	client := s.show(t, "pgweir", "CLIENTS").find(t, "replication=physical", "state=active", "user=app", "application_name=pg_receivewal")
	s.show(t, "pgweir", "SERVERS").find(t, "replication=physical", "state=active", "user=app", "remote_pid="+pid, "link="+client["ptr"], "ptr="+client["link"])
	s.show(t, "pgweir", "UPSTREAMS").find(t, "replicating=1")
	if got := s.metric(t, `pgweir_replication_connections{upstream="main"}`); got != "1" {
		t.Errorf("%s replicate", got)
	}
	s.console(t, "kill_client "+client["id"])
	if out, _ := p.ended(t); !strings.Contains(out, "an administrator has ended this session") {
		t.Error(out)
	}
	s.await(t, "count(*) = 0 from pg_stat_replication")
}

// There are no more of them than the budget allows, and one place is for others.
func TestReplicationBudget(t *testing.T) {
	t.Parallel()
	s := replicated(t, plan{slots: 2, more: "[[workload]]\nname = \"default\"\nmax_wait = \"60s\"\nsession_wait = \"60s\"\n"})
	if _, err := s.Pgbench(t.Context(), s.app, "-i", "-q", "-s", "1"); err != nil {
		t.Fatal(err)
	}
	p := s.receive(t)
	out, err := s.identify(t, "database")
	if err == nil || !strings.Contains(out, "no server connection is left for another replication connection") || !strings.Contains(out, "reason=replication") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := s.start(t, "pg_basebackup", "-w", "-D", filepath.Join(t.TempDir(), "b"), "-X", "stream", "-c", "fast", "--no-sync").ended(t); err == nil || !strings.Contains(out, "no server connection is left") {
		t.Errorf("%v: %s", err, out)
	}
	s.stop(t, p)
	// While all others are in use it waits for one, and gets it before them.
	s.benched(t, func() {
		if out, err := s.identify(t, "true"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	c := s.join(t, s.app)
	run(t, c, "begin")
	run(t, c, "select 1")
	if out, err := s.identify(t, "true"); err != nil {
		t.Errorf("beside a transaction: %v: %s", err, out)
	}
	run(t, c, "commit")
	// They count for what the role may have on the server.
	s.write(t, s.text+"\n[role.app]\nmax_server_connections = 1\n")
	s.console(t, "reload")
	p = s.receive(t)
	if out, err := s.identify(t, "true"); err == nil || !strings.Contains(out, "reason=replication") {
		t.Errorf("over max_server_connections: %v: %s", err, out)
	}
	s.stop(t, p)
}

// Their logins to Postgres are as many per second as connect_rate allows, and no more.
func TestReplicationKeepsToTheConnectRate(t *testing.T) {
	t.Parallel()
	s := replicated(t, plan{slots: 4, upstream: "connect_rate = 1\nconnect_parallel = 1\n", more: "[[workload]]\nname = \"default\"\nsession_wait = \"1ms\"\n"})
	eventually(t, "of several that come at once one is refused", func() bool {
		out, err := s.identify(t, "true")
		if err != nil && !strings.Contains(out, "reason=replication") {
			t.Fatal(err, out)
		}
		return err != nil
	})
	eventually(t, "one is let in", func() bool {
		_, err := s.identify(t, "true")
		return err == nil
	})
}

// Clients are told of the end, whoever ends it.
func TestReplicationEnds(t *testing.T) {
	t.Parallel()
	s := replicated(t, plan{slots: 4})
	p := s.receive(t)
	s.sql(t, "postgres", "select pg_terminate_backend(pid) from pg_stat_replication")
	if out, _ := p.ended(t); !strings.Contains(out, "terminating connection due to administrator command") {
		t.Error(out)
	}
	p = s.receive(t)
	pid, err := strconv.Atoi(s.sql(t, "postgres", "select pid from pg_stat_replication"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if out, _ := p.ended(t); !strings.Contains(out, "the server connection was lost") {
		t.Error(out)
	}
	eventually(t, "the end of the recovery", func() bool {
		_, err := s.Psql(t.Context(), pgtest.Login{User: "app", Password: "one", Database: "app"}, "select 1")
		return err == nil
	})
	p = s.receive(t)
	s.proc.Signal(syscall.SIGTERM)
	if out, _ := p.ended(t); !strings.Contains(out, "pgweir: shutting down") {
		t.Error(out)
	}
	s.gone(t)
}

// Both sides are encrypted.
func TestReplicationOverTLS(t *testing.T) {
	t.Parallel()
	front := operateTLS(t, plan{
		slots: 4, auth: "scram-sha-256", password: "one",
		settings: map[string]string{"wal_level": "logical", "max_wal_senders": "8", "max_replication_slots": "8"},
	})
	s := lockedUp(t, front.operated)
	s.letReplicate(t, "hostssl")
	s.url(t, "sslmode=verify-full&sslrootcert=CA&channel_binding=require")
	p := s.receive(t)
	s.show(t, "pgweir", "CLIENTS").find(t, "replication=physical", "state=active")
	for _, what := range []string{"CLIENTS", "SERVERS"} {
		if row := s.show(t, "pgweir", what).find(t, "replication=physical"); !strings.HasPrefix(row["tls"], "TLSv1.3/TLS_") {
			t.Errorf("SHOW %s: %v", what, row)
		}
	}
	s.stop(t, p)
	s.replicates(t)
	p = s.receive(t)
	s.proc.Signal(syscall.SIGTERM)
	if out, _ := p.ended(t); !strings.Contains(out, "pgweir: shutting down") {
		t.Error(out)
	}
	s.gone(t)
}
