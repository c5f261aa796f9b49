package hostile

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgweir/pgweir/wire"
)

// Many more connections than may log in at once: those that are too many are told so, with a
// reason and a count, and nobody who is in notices.
func TestFloodOfConnects(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	beside := c.watch(t, "fair")
	before := c.rest(t, 1)
	was, err := c.scrape()
	if err != nil {
		t.Fatal(err)
	}
	var all []*client
	for range 200 {
		h, err := knock(c.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	refused := 0
	for i, h := range all {
		told, err := h.end() // the silent ones when their time is over
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if told != nil && told.Code == "53300" && strings.Contains(told.Message, "max_logins") {
			refused++
		}
		_ = h.Close()
	}
	now, err := c.scrape()
	if err != nil {
		t.Fatal(err)
	}
	if n := now.Sum("pgweir_refusals_total", "max_logins") - was.Sum("pgweir_refusals_total", "max_logins"); refused < 100 || int(n) < refused {
		t.Errorf("%d of %d were told, %v counted", refused, len(all), n)
	}
	c.balanced(t, before)
	beside.look(t)
}

// More sessions than max_client_conn, and logins that leave at any moment.
func TestFloodOfLogins(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	beside := c.watch(t, "fair")
	before := c.rest(t, 1)
	var in []*client
	for i := 0; ; i++ {
		h, err := enter(c.Endpoint, "fair")
		if code(err) == "53300" && strings.Contains(err.Error(), "max_client_conn") {
			break
		}
		if err != nil || i > 400 {
			t.Fatalf("client %d: %v", i, err)
		}
		in = append(in, h)
	}
	console, err := enter(c.Endpoint, "pgweir")
	if err != nil {
		t.Fatalf("the console: %v", err)
	}
	if err := console.query("SHOW LISTS"); err != nil {
		t.Error(err)
	}
	in = append(in, console)
	for i, h := range in {
		if i%2 == 0 {
			reset(h)
		}
		_ = h.Close()
	}
	c.balanced(t, before)
	hello := startup("fair")
	for round := range 10 {
		var work sync.WaitGroup
		for i := range 24 {
			work.Go(func() {
				h, err := knock(c.Endpoint)
				if err != nil {
					return
				}
				_, _ = h.Write(append(hello[:len(hello):len(hello)], wire.AppendQuery(nil, "select 1")...))
				if (i+round)%3 == 0 {
					reset(h)
				}
				_ = h.Close()
			})
		}
		work.Wait()
	}
	c.balanced(t, before)
	beside.look(t)
}

// Requests to cancel with keys that are nobody's, or almost somebody's, cancel nothing. They
// take no place of a client, wait for nothing, and are let go. Who keeps the connection open,
// or goes on talking, is not waited for. Traps 34, 36, 54.
func TestFloodOfCancels(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	beside := c.watch(t, "fair")
	victim := mustEnter(t, c.Endpoint, "lies")
	c.rest(t, 2)
	before, err := c.books()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- victim.query("sleep 100000 /*id=x*/") }()
	running := func() bool {
		m, err := c.scrape()
		return err == nil && m.Sum("pgweir_slots", "liar", "running") == 1
	}
	eventually(t, "it runs", running)
	wrong := func(i int) (uint32, []byte) {
		key := append([]byte(nil), victim.key...)
		switch i % 4 {
		case 0:
			return uint32(i + 1), []byte{0, 0, 0, byte(i)}
		case 1:
			key[i/4%4] ^= 1 << (i / 16 % 8)
			return victim.pid, key
		case 2:
			return victim.pid, append(key, byte(i))
		}
		return victim.pid ^ 1<<(i/4%32), key
	}
	for round := range 25 {
		var work sync.WaitGroup
		for i := range 20 {
			work.Go(func() {
				pid, key := wrong(20*round + i)
				_ = cancel(c.Endpoint, pid, key) // it may be told that there are too many
			})
		}
		work.Wait()
	}
	var open []*client // after a request they stay, and some talk
	for i := range 20 {
		h, err := knock(c.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		pid, key := wrong(i)
		b := wire.AppendCancelRequest(nil, pid, key)
		if i%2 == 0 {
			b = append(b, make([]byte, 1000)...)
		}
		if _, err := h.Write(b); err != nil {
			t.Fatal(err)
		}
		open = append(open, h)
	}
	for _, h := range open {
		if _, err := h.end(); err != nil {
			t.Error(err)
		}
		_ = h.Close()
	}
	select {
	case err := <-done:
		t.Fatalf("the statement of another was ended: %v", err)
	default:
	}
	if !running() {
		t.Error("it does not run any more")
	}
	h, err := knock(c.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	if _, err := h.Write(append(wire.AppendCancelRequest(nil, victim.pid, victim.key), "and more"...)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if code(err) != "57014" {
			t.Errorf("cancelled: %v", err)
		}
	case <-time.After(patience):
		t.Error("the right key does not cancel")
	}
	for range 100 { // and while nothing runs they meet nothing
		if err := cancel(c.Endpoint, victim.pid, victim.key); err != nil {
			t.Fatal(err)
		}
		if err := victim.query("select 1"); err != nil {
			t.Fatalf("a statement behind a cancel that came too late: %v", err)
		}
	}
	c.balanced(t, before)
	beside.look(t)
}

// What a server says of itself at its login is what the next clients are told: after an
// upgrade or a failover nobody hears of the old one. Trap 38.
func TestWelcomeAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	c := convene(t)
	version := func() (said string) {
		t.Helper()
		h, err := knock(c.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = h.Close() }()
		if _, err := h.Write(startup("lies")); err != nil {
			t.Fatal(err)
		}
		for {
			typ, body, err := wire.ReadMessage(h.r, 1<<16)
			if err != nil {
				t.Fatal(err)
			}
			if p, err := wire.ParseParameterStatus(body); typ == wire.MsgParameterStatus && err == nil && p.Name == "server_version" {
				said = p.Value
			}
			if typ == wire.MsgReadyForQuery {
				return said
			}
		}
	}
	console, next := mustEnter(t, c.Endpoint, "pgweir"), mustEnter(t, c.Endpoint, "lies")
	if v := version(); v != "15.18" {
		t.Fatal(v)
	}
	for i := range 3 {
		upgraded := fmt.Sprint("18.0", i)
		c.liar.at(upgrade("15.18", upgraded), nil)
		if err := console.query("RECONNECT lies"); err != nil {
			t.Fatal(err)
		}
		if err := next.query("select 1"); err != nil {
			t.Fatal(err)
		}
		if v := version(); v != upgraded {
			t.Errorf("told %s, want %s", v, upgraded)
		}
	}
}
