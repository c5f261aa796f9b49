package status

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// watched is a server whose history is full of an overload that goes on.
func watched(t *testing.T) (url string, g *fake) {
	t.Helper()
	begin := time.Now().Add(-sampleKeep * time.Second)
	play := newOverload(begin)
	g = &fake{make: func(n int) *state.Snapshot { return play.second(sampleKeep + n) }, tenants: play.tenants}
	s := New(Options{Guard: g, Version: "1.2.3", Log: newTextLogger(t.Output())})
	h := s.history
	h.mu.Lock()
	for k := range sampleKeep + 1 {
		h.addLocked(play.second(k), play.tenants(), nil)
	}
	h.running, h.looked = true, time.Now()
	h.work.Go(h.run)
	h.mu.Unlock()
	return serveUntilEnd(t, s), g
}

func TestPageUnderOverload(t *testing.T) {
	b := newBrowser(t)
	url, g := watched(t)
	p := b.open(url, 1400, 1000, "light")
	p.wait(`document.getElementById("state-text").textContent === "Serving"`)
	n := g.count()
	p.wait(`document.querySelectorAll("#workloads tr").length === 7`)
	said := p.eval("document.body.innerText")
	for _, want := range []string{
		"Served and refused", "Wait for a slot", "Refused, by reason", "Waiting and running",
		"main", "10.0.0.5:5432", "24 of 24", "37 of 40", "logging in", "held for a cancel",
		"checkout", "2 lent", "2.4 borrowed", "188 ms of 200 ms",
		"queue_age", "queue_full", "no_server", "max_client_conn", "web-crawler", "nightly-sync",
		state.Advice("queue_age"), state.Advice("no_server"), "1.2.3", "up 2 d", "MB/s to clients", "standing", "dry run", "fifo", "sheddable_plus", "would have been refused", "were in vain", "Who sends it", "1.3 of them for nobody", "acme", "answered in time", "1,050", "of 10,000",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	p.screenshot("status-light.png")
	d := b.open(url, 1400, 1000, "dark")
	d.wait(`document.querySelectorAll("#workloads tr").length === 7`)
	d.screenshot("status-dark.png")
	d.resize(390, 844)
	d.wait(`document.documentElement.scrollWidth <= window.innerWidth`)
	d.screenshot("status-narrow.png")
	p.wait(`document.querySelectorAll("#c-rate path").length > 0`)
	if g.count() < n {
		t.Error("the sampler has stopped")
	}
	if list := b.complaints(); len(list) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(list, "\n"))
	}
	t.Logf("the page says:\n%s", said)
}

// What is on the page stays where it is when the first data comes, and later.
func TestPageDoesNotJump(t *testing.T) {
	b := newBrowser(t)
	release, play := make(chan struct{}), newOverload(time.Now())
	g := &fake{make: func(n int) *state.Snapshot {
		<-release
		return play.second(100 + n)
	}}
	url := serveUntilEnd(t, New(Options{Guard: g, Log: newTextLogger(t.Output())}))
	p := b.open(url, 1400, 1000, "light")
	const places = `JSON.stringify([...document.querySelectorAll(".tile, figure, .plot, #h-upstreams, header")].map((e) => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }))`
	p.wait(`document.querySelector("#c-queue .legend span")`)
	before := p.eval(places)
	if p.eval(`document.getElementById("state-text").textContent`) != "Connecting" {
		t.Error("there is data already")
	}
	close(release)
	// The first answer has no rates yet, the second has.
	for _, filled := range []string{"t-clients", "t-served"} {
		p.wait(`!["–", "0"].includes(document.getElementById("` + filled + `").textContent)`)
		if after := p.eval(places); after != before {
			t.Errorf("with %s:\nbefore %s\nafter  %s", filled, before, after)
		}
	}
	if list := b.complaints(); len(list) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(list, "\n"))
	}
}

func TestPageShowsTheState(t *testing.T) {
	b := newBrowser(t)
	snap := fixed()
	g := &fake{make: func(int) *state.Snapshot {
		s := *snap
		s.Now = time.Now()
		return &s
	}}
	s := New(Options{Guard: g, Log: newTextLogger(t.Output())})
	url := serveUntilEnd(t, s)
	p := b.open(url, 1400, 1000, "light")
	const name, banner = `document.getElementById("state-text").textContent`, `document.getElementById("banner").textContent`
	p.wait(name + ` === "Serving"`)
	change := func(f func(*state.Snapshot)) {
		g.set(func(*fake) {
			next := *snap
			next.Upstreams = slices.Clone(snap.Upstreams)
			f(&next)
			snap = &next
		})
	}
	change(func(s *state.Snapshot) { s.Upstreams[0].Paused = true })
	p.wait(name + ` === "Paused" && ` + banner + `.includes("main: paused")`)
	change(func(s *state.Snapshot) {
		s.Upstreams[0].Down, s.Upstreams[0].LastError = true, "28P01: password authentication failed"
	})
	p.wait(name + ` === "No database" && ` + banner + `.includes("28P01: password authentication failed")`)
	change(func(s *state.Snapshot) { s.Draining = true })
	p.wait(name + ` === "Draining" && ` + banner + `.includes("Shutting down")`)
	if list := b.complaints(); len(list) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(list, "\n"))
	}
	g.set(func(f *fake) { f.err = errStuck })
	p.wait(name + ` === "Not answering" && ` + banner + `.includes("The event loop has not answered")`)
	_ = s.public.Close()
	p.wait(name + ` === "No contact" && ` + banner + `.includes("from before")`)
}

// Clients choose their application_name: it must stay text.
func TestPageTreatsNamesAsText(t *testing.T) {
	b := newBrowser(t)
	const evil = `<img src=x onerror="window.evil=1">"'<script>window.evil=1</script>`
	snap := fixed()
	snap.Refusals[0].Application = evil
	snap.Refusals[0].Reason = evil
	snap.Workloads[0].Name = evil
	snap.Upstreams[0].LastError = evil
	snap.Upstreams[0].Down = true
	url := serveUntilEnd(t, New(Options{Guard: &fake{make: func(int) *state.Snapshot { return snap }}, Version: evil, Log: newTextLogger(t.Output())}))
	p := b.open(url, 1000, 800, "dark")
	p.wait(`document.getElementById("refusals").textContent.includes("<img src=x")`)
	p.wait(`document.getElementById("banner").textContent.includes("<img src=x")`)
	if got := p.eval(`typeof window.evil + document.images.length`); got != "undefined0" {
		t.Error(got)
	}
	if list := b.complaints(); len(list) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(list, "\n"))
	}
}

// The tests above would pass with a browser that never complains.
func TestBrowserComplains(t *testing.T) {
	b := newBrowser(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src "+hash(`console.error("a complaint"); missing()`))
		_, _ = w.Write([]byte(`<body><script>console.error("a complaint"); missing()</script><script>window.inline=1</script></body>`))
	})}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	p := b.open("http://"+ln.Addr().String(), 800, 600, "light")
	p.wait(`document.readyState === "complete"`)
	all := strings.Join(b.complaints(), "\n")
	for _, want := range []string{"a complaint", "missing is not defined", "Content Security Policy"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing about %s in:\n%s", want, all)
		}
	}
}
