package status

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/control"
)

// adminRoutes are the paths of the admin listener.
func (s *Server) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	if s.o.Config != nil {
		mux.HandleFunc("POST /reload", s.reload)
		mux.HandleFunc("GET /config", s.config)
	}
	// Without pprof.Cmdline: the command line may have a URL with a password in it.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return guarded(localName(http.NewCrossOriginProtection().Handler(mux)))
}

// localName refuses requests whose Host is neither an address nor localhost. Together with
// the check of the origin it keeps out web pages that a browser on this machine has open: one
// of them could let a name of its own point at the loopback address.
func localName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocalName(r) {
			plain(w, http.StatusForbidden, "the Host must be an address or localhost\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLocalName(r *http.Request) bool {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.Network() == "unix" {
		return true // no browser reaches it
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost")
}

// reload reads the configuration again: 200 with the differences, or 422 with the problems,
// and then nothing has changed.
func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	changes, problems := s.o.Config.Reload(r.Context())
	if len(problems) > 0 {
		plain(w, http.StatusUnprocessableEntity, problemsText(problems))
		return
	}
	text := changesText(changes)
	for _, odd := range s.o.Config.Warnings() {
		text += "warning: " + odd + "\n"
	}
	plain(w, http.StatusOK, text)
}

func problemsText(problems []control.Problem) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "nothing has changed: %d %s\n", len(problems), plural(len(problems), "problem"))
	for _, p := range problems {
		b.WriteString("\n" + p.Text + "\n")
		if p.Where != "" {
			b.WriteString(strings.TrimRight(p.Where, "\n") + "\n")
		}
		if p.Hint != "" {
			b.WriteString("hint: " + p.Hint + "\n")
		}
	}
	return b.String()
}

func changesText(changes []control.Change) string {
	if len(changes) == 0 {
		return "read again, nothing is different\n"
	}
	var b strings.Builder
	for _, c := range changes {
		_, _ = fmt.Fprintf(&b, "%s: %s -> %s", c.Key, c.Old, c.New)
		if c.Restart {
			b.WriteString(" (at the next start only)")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// config shows every setting with where it comes from.
func (s *Server) config(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) } // to memory
	row("key", "value", "default", "source", "applied by reload")
	for _, v := range s.o.Config.Settings() {
		row(v.Key, v.Value, v.Default, v.Source, yesNo(v.Reload))
	}
	_ = t.Flush()
	plain(w, http.StatusOK, b.String())
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// lastReload is Options.LastReload, or never.
func (s *Server) lastReload() (at time.Time, ok bool) {
	if s.o.LastReload == nil {
		return time.Time{}, true
	}
	return s.o.LastReload()
}
