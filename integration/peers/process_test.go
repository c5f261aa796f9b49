package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/child"
)

// The generator's clients talk to its own fake PostgreSQL, with no pooler between.
func TestSatloadAgainstItself(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	g, err := startSatload(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	self := &pooler{contender: contender{label: "self"}, Endpoint: g.Endpoint, proc: g.proc}
	for mode, perTx := range map[string]float64{"simple": 1, "extended": 5, "prepared": 4} {
		r, err := g.run(t.Context(), self, 3, mode, 100*time.Millisecond)
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		// At either end of the measured time a transaction per client may be half in it.
		edge := 2 * 3 * perTx
		if off := float64(r.messages) - perTx*float64(r.transactions); off > edge || off < -edge {
			t.Errorf("%s: %d messages for %d transactions", mode, r.messages, r.transactions)
		}
		if r.cpu <= 0 || r.seconds < 0.1 || r.p99 < r.p50 {
			t.Errorf("%s: %+v", mode, r)
		}
	}
	// The fake is more than the one statement: what a pooler does to its servers works, too.
	c, err := (&pooler{Endpoint: g.Endpoint}).dial(nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, sql := range []string{"BEGIN", "SELECT pg_catalog.set_config('a.b', 'c', false)", "COMMIT", "SET a.b = 1", "DISCARD ALL", "SHOW all"} {
		if err := c.query(sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := c.prepared("p", "SELECT 1"); err != nil {
		t.Error(err)
	}
	if err := c.prepared("p", "SELECT 2"); err == nil || !strings.HasPrefix(err.Error(), "42P05") {
		t.Errorf("a name parsed twice: %v", err)
	}
	if err := c.query("SELECT 1"); err != nil {
		t.Errorf("after an error: %v", err)
	}
}

func TestSatloadReportsATroubledPooler(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	g, err := startSatload(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	nobody := &pooler{Endpoint: g.Endpoint, proc: g.proc}
	nobody.Port = 1
	if _, err := g.run(t.Context(), nobody, 1, "simple", 100*time.Millisecond); err == nil || !strings.Contains(err.Error(), "connecting") {
		t.Errorf("no pooler there: %v", err)
	}
}

func TestWatchMemorySeesAPeak(t *testing.T) {
	base, err := child.RSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	peak, stop := watchMemory(os.Getpid())
	b := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for peak.Load() < base+size/2 {
		if err := pause(deadline, time.Millisecond); err != nil {
			t.Errorf("peak %d after %d bytes more than %d", peak.Load(), size, base)
			break
		}
	}
	stop()
	if b[4096] != 1 {
		t.Error("the memory is needed until here")
	}
}
