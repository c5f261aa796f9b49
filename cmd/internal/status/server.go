package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// Guard is the running proxy, as far as it is looked at.
type Guard interface {
	state.Inspector
	state.Pulse
}

// DefaultMaxPools is how many pools have series of their own unless Options say otherwise.
const DefaultMaxPools = 1000

// Options are a Server's settings. Guard and Log are required.
type Options struct {
	Guard   Guard
	Version string
	// Config is what the admin listener reloads and shows; nil: it answers 404 for both.
	Config control.Configurator
	// LastReload says when the configuration was last read by a running process, by
	// whatever way, and whether it was accepted. nil, or a zero time: never.
	LastReload func() (at time.Time, ok bool)
	// MaxPools bounds the pools, and likewise the databases, that have series of their
	// own: the busiest do. 0 stands for DefaultMaxPools.
	MaxPools int
	Log      *slog.Logger
}

// Server answers HTTP on a public and an admin listener. Make it with New.
type Server struct {
	o             Options
	public, admin *http.Server
	history       *history
}

// Bounds of what a peer may use.
const (
	maxHeader       = 16 << 10
	maxPublicConns  = 256
	maxAdminConns   = 32
	headerTime      = 5 * time.Second
	idleTime        = time.Minute
	publicWriteTime = 30 * time.Second
	adminWriteTime  = 10 * time.Minute // profiles take as long as they are asked to
)

// New makes a Server. It starts nothing.
func New(o Options) *Server {
	if o.MaxPools == 0 {
		o.MaxPools = DefaultMaxPools
	}
	s := &Server{o: o, history: newHistory(o.Guard, o.Version)}
	s.public = s.server(s.publicRoutes(), publicWriteTime)
	s.admin = s.server(s.adminRoutes(), adminWriteTime)
	return s
}

func (s *Server) server(h http.Handler, writeTime time.Duration) *http.Server {
	return &http.Server{
		Handler: h, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, WriteTimeout: writeTime,
		ReadTimeout: writeTime,                                             // not shorter: net/http ends the context of a running request by it
		ErrorLog:    slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug), // what strangers do wrong
	}
}

// publicRoutes are the paths of the public listener. The patterns name the method: net/http
// answers 405 to others.
func (s *Server) publicRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metricsHandler())
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /status.json", s.statusJSON)
	mux.Handle("GET /{$}", newPage())
	return guarded(mux)
}

// guarded adds the headers that every answer has: nothing is kept, sniffed or framed.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

// ServePublic answers on ln until Shutdown. It owns ln. The error is nil after Shutdown.
func (s *Server) ServePublic(ln net.Listener) error { return serve(s.public, ln, maxPublicConns) }

// ServeAdmin answers on ln until Shutdown. It owns ln, which must be one that only
// administrators reach: loopback or a Unix socket. The error is nil after Shutdown.
func (s *Server) ServeAdmin(ln net.Listener) error { return serve(s.admin, ln, maxAdminConns) }

func serve(h *http.Server, ln net.Listener, conns int) error {
	if err := h.Serve(limit(ln, conns)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("http on %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown stops listening, lets requests end until ctx does, then cuts them off. The error
// is ctx's if it had to.
func (s *Server) Shutdown(ctx context.Context) error {
	s.history.stop()
	err := errors.Join(s.public.Shutdown(ctx), s.admin.Shutdown(ctx))
	return errors.Join(err, s.public.Close(), s.admin.Close())
}
