package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/status"
	"github.com/pgweir/pgweir/config"
)

// httpListeners are where HTTP is served; nil = not there.
type httpListeners struct{ public, admin net.Listener }

func (h httpListeners) close() error {
	var list []net.Listener
	for _, ln := range []net.Listener{h.public, h.admin} {
		if ln != nil {
			list = append(list, ln)
		}
	}
	return closeAll(list)
}

// listenHTTP opens the HTTP listeners. It comes before those for clients, so that who finds
// these finds the others too.
func (g *guard) listenHTTP(c *config.Config) (h httpListeners, err error) {
	for _, place := range []struct {
		config.Listen
		ln *net.Listener
	}{{c.HTTP, &h.public}, {c.AdminHTTP, &h.admin}} {
		if !place.IsSet() {
			continue
		}
		list, err := listen([]config.Listen{place.Listen}, c.ReusePort && place.Network == "tcp")
		switch {
		case errors.Is(err, syscall.EADDRINUSE) && place.Listen == c.HTTP && !written(c, "http"):
			// Nobody has asked for it: most likely there is another pgweir on this machine.
			g.log.Warn(fmt.Sprintf("http: %s is taken: no metrics, health or status page; set http to another address, or to \"none\"", place.Address))
			continue
		case err != nil:
			return h, errors.Join(fmt.Errorf("http: %w", err), h.close())
		}
		*place.ln = list[0]
		g.log.Info("http", "address", list[0].Addr().String())
	}
	return h, nil
}

// serveHTTP answers on the HTTP listeners until closeHTTP.
func (g *guard) serveHTTP(h httpListeners) (closeHTTP func()) {
	srv := status.New(status.Options{Guard: g, Config: g, Version: versionText(), LastReload: g.lastReload, Log: g.log})
	serve := func(ln net.Listener, f func(net.Listener) error) {
		if ln == nil {
			return
		}
		g.work.Go(func() {
			if err := f(ln); err != nil {
				g.log.Error("http ended", "error", err)
			}
		})
	}
	serve(h.public, srv.ServePublic)
	serve(h.admin, srv.ServeAdmin)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx) // what is not answered by then is cut off with the process
	}
}

// written reports whether somebody has written a key: it is not the default.
func written(c *config.Config, key string) bool {
	return slices.ContainsFunc(c.Settings(), func(s config.Setting) bool { return s.Key == key && s.Source != "default" })
}
