package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/upstream"
)

// A name that stands for another address takes its servers along, though nobody logs in to a
// server: a client that keeps the pool busy would otherwise stay at the old one for ever.
func TestServersFollowTheirName(t *testing.T) {
	one := fakePostgres(t)
	_, port, _ := net.SplitHostPort(one.Addr().String())
	two, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skip("127.0.0.2 is not an address here: ", err)
	}
	t.Cleanup(func() { _ = two.Close() })
	go func() {
		for {
			conn, err := two.Accept()
			if err != nil {
				return
			}
			go serveBackend(conn)
		}
	}()

	var answer atomic.Pointer[[]string] // nil: the name server does not answer
	say := func(addresses ...string) { answer.Store(&addresses) }
	host := upstream.Host{Network: "tcp", Address: "db.test:" + port}
	px, address := start(t, func(o *Options) {
		u := &o.Settings.Upstreams[0]
		u.DNSMaxTTL = 10 * time.Millisecond
		u.Hosts.Hosts = []upstream.Host{host}
		u.Hosts.Resolve = func(context.Context, string) (list []netip.Addr, err error) {
			now := answer.Load()
			if now == nil {
				return nil, errors.New("no name server")
			}
			for _, a := range *now {
				list = append(list, netip.MustParseAddr(a))
			}
			return list, nil
		}
	})
	up := px.upstreams["main"]
	at := func(a string) func() bool {
		return func() bool {
			p := up.places()
			return len(p) == 1 && p[upstream.Place{Host: host, Address: a + ":" + port}]
		}
	}
	lookups := func(more uint64) {
		t.Helper()
		var from uint64
		look(t, px, func(int64) { from = up.naming.lookups })
		until(t, px, "it was looked up again", func() bool { return up.naming.lookups >= from+more })
	}

	say("127.0.0.1")
	conn, err := connect(t, address, "db")
	if err != nil {
		t.Fatal(err)
	}
	ask(t, conn, "select 1")
	until(t, px, "a server at the first address", at("127.0.0.1"))
	say("127.0.0.2", "127.0.0.1") // both serve
	lookups(goneAfter + 1)
	answer.Store(nil)
	lookups(goneAfter + 1)
	until(t, px, "it stays", at("127.0.0.1"))

	say("127.0.0.2")
	until(t, px, "no server at the old address", func() bool { return len(up.places()) == 0 })
	ask(t, conn, "select 1")
	until(t, px, "a server at the new address", at("127.0.0.2"))
	lookups(1)
	look(t, px, func(now int64) {
		s := up.nameStates(now)
		if len(s) != 1 || s[0].Name != host.Address || !slices.Equal(s[0].Addresses, []string{"127.0.0.2:" + port}) {
			t.Errorf("%+v", s)
		}
	})
}

// Without a name, or without servers, there is nothing to look up.
func TestAddressesAreNotLookedUp(t *testing.T) {
	px, address := start(t, func(o *Options) { o.Settings.Upstreams[0].DNSMaxTTL = time.Millisecond })
	conn, err := connect(t, address, "db")
	if err != nil {
		t.Fatal(err)
	}
	ask(t, conn, "select 1")
	settled(t, px)
	look(t, px, func(int64) {
		if n := &px.upstreams["main"].naming; n.at != 0 || n.pending || n.lookups != 0 {
			t.Errorf("%+v", n)
		}
	})
}
