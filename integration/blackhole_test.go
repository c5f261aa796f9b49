package integration

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// holeEnv says which part of the black hole's test this process plays.
const holeEnv = "PGWEIR_TEST_HOLE"

// The network of the black hole: a namespace for PostgreSQL, one for pgweir and its clients,
// and a wire between the two.
const (
	holeServer, holePooler = "pgweir-hole-server", "pgweir-hole-pooler"
	holeAddress, holeOther = "198.18.7.1", "198.18.7.2" // of the block for tests of networks
)

// The network swallows everything, without a word: neither side hears that the other is
// gone. Whoever has a statement under way is told within tcp_user_timeout, everybody else is
// refused after no_server_wait, and when the network is back so is the service. Trap 57.
func TestBlackHole(t *testing.T) {
	if os.Getenv(directEnv) != "" || testing.Short() {
		t.Skip("needs pgweir, and a PostgreSQL")
	}
	switch part := os.Getenv(holeEnv); {
	case part == "":
		if os.Getuid() != 0 {
			t.Skip("only root makes network namespaces")
		}
		digHole(t)
		playHole(t, holeServer, "server")
	case part == "server":
		holeCluster(t)
	default:
		holeClients(t, part)
	}
}

// digHole makes the namespaces.
func digHole(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("no ip(8): install iproute2")
	}
	for _, ns := range []string{holeServer, holePooler} {
		_ = exec.Command("ip", "netns", "delete", ns).Run() // of a run that was killed
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", ns).Run() })
		ip(t, "netns add "+ns)
		ip(t, "-n "+ns+" link set lo up")
	}
	ip(t, "-n "+holeServer+" link add name wire type veth peer name wire netns "+holePooler)
	for ns, address := range map[string]string{holeServer: holeAddress, holePooler: holeOther} {
		ip(t, "-n "+ns+" address add "+address+"/30 dev wire")
		ip(t, "-n "+ns+" link set wire up")
	}
	// Who is asked for an address that does not answer says so after three seconds.
	for ns, of := range map[string][2]string{holeServer: {holePooler, holeOther}, holePooler: {holeServer, holeAddress}} {
		ip(t, "-n "+ns+" neighbour replace "+of[1]+" lladdr "+linkAddress(t, of[0])+" dev wire nud permanent")
	}
}

// ip runs ip(8).
func ip(t *testing.T, args string) string {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v: %s", args, err, out)
	}
	return string(out)
}

// linkAddress is the hardware address of the wire's end in a namespace.
func linkAddress(t *testing.T, ns string) string {
	t.Helper()
	_, rest, _ := strings.Cut(ip(t, "-n "+ns+" link show dev wire"), "link/ether ")
	address, _, _ := strings.Cut(rest, " ")
	return address
}

// playHole runs this test again inside a namespace, as another part.
func playHole(t *testing.T, ns, part string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", ns, os.Args[0], "-test.run", "^TestBlackHole$", "-test.v", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), holeEnv+"="+part)
	out, err := cmd.CombinedOutput()
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte("=== ")) && !bytes.HasPrefix(line, []byte("PASS")) {
			t.Log(part + ": " + strings.TrimSuffix(string(line), "\n"))
		}
	}
	if err != nil {
		t.Errorf("the part of the %s: %v", part, err)
	}
}

// holeCluster is the part of PostgreSQL.
func holeCluster(t *testing.T) {
	c, err := pgtest.Start(t.Context(), pgtest.Options{
		Settings: map[string]string{"listen_addresses": "'127.0.0.1," + holeAddress + "'"},
		HBA:      []string{"local all all trust", "host all all 127.0.0.1/32 trust", "host all all " + holeOther + "/32 trust"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endCluster(t, c) })
	r := &front{Endpoint: c.Endpoint, cluster: c, app: pgtest.Login{User: "app", Database: "app"}}
	r.sql(t, "postgres", "create role app login;\ncreate database app owner app")
	r.sql(t, "app", ledgerTable)
	playHole(t, holePooler, strconv.Itoa(c.Port))
}

// holeClients is the part of pgweir and its clients, with PostgreSQL at a port.
func holeClients(t *testing.T, port string) {
	const userTimeout = 2 * time.Second
	users := filepath.Join(t.TempDir(), "userlist.txt")
	if err := os.WriteFile(users, userlist("app", ""), 0o600); err != nil {
		t.Fatal(err)
	}
	proc := pgtest.Pgweir(t, fmt.Sprintf(`[auth]
auth_type = "trust"
auth_file = %q
[upstream.main]
url = "postgres://app@%s/app?sslmode=disable"
budget = 6
reserve = 1
server_connect_timeout = %q
tcp_user_timeout = %q
[database."*"]
[[workload]]
max_wait = "1s"
no_server_wait = "1s"
`, users, net.JoinHostPort(holeAddress, port), size("1s", "5s"), userTimeout))
	f := &front{Endpoint: proc.Endpoint, proc: proc, app: pgtest.Login{User: "app", Database: "app"}}
	l := startLedger(t, f, 12, 5*time.Millisecond)
	served(t, l)

	// Two have a statement that Postgres has got and is at: nothing of theirs is under way.
	quiet := startLedger(t, f, 2, 20*time.Second)
	beside, err := pgconn.Connect(t.Context(), "postgres://app@"+net.JoinHostPort(holeAddress, port)+"/app?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are at it", func() bool {
		r := beside.ExecParams(t.Context(), "select from pg_stat_activity where wait_event = 'PgSleep' and now() - query_start > '100 ms'", nil, nil, nil, nil).Read()
		return r.CommandTag.RowsAffected() == 2
	})
	_ = beside.Close(t.Context())
	go quiet.end() // when they are told
	for round := range size(1, 6) {
		fell := time.Now()
		ip(t, "-n "+holeServer+" link set wire down")
		eventually(t, "everybody with a statement under way is told", func() bool {
			return l.count("57P01", fell) >= 3 && (round > 0 || quiet.count("57P01", fell) >= 2)
		})
		told := time.Now()
		eventually(t, "others are refused", func() bool {
			return l.count("53300", told) >= 5 && time.Since(told) >= time.Duration(round)*1500*time.Millisecond
		})
		ip(t, "-n "+holeServer+" link set wire up")
		ip(t, "-n "+holeServer+" neighbour replace "+holeOther+" lladdr "+linkAddress(t, holePooler)+" dev wire nud permanent")
		eventually(t, "the network is back", func() bool {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(holeAddress, port), 50*time.Millisecond)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
		back := time.Now()
		served(t, l)
		t.Logf("all servers given up after %v (tcp_user_timeout %v), in the dark for %v; meanwhile %s; after it was back: %s",
			told.Sub(fell).Round(time.Millisecond), userTimeout, back.Sub(fell).Round(time.Millisecond), l.report(fell, back), l.report(back, time.Now()))
	}
	quiet.end()
	l.end()
	l.onlyOutcomes(t, "ok", "53300", "57P01", "lost", "login 53300")
}
