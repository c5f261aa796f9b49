package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/console"
	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/proxy"
	"github.com/pgweir/pgweir/cmd/internal/status"
	"github.com/pgweir/pgweir/config"
)

// guard is a running pgweir and the configuration that is in force. It is what console and
// HTTP talk to.
type guard struct {
	*proxy.Proxy
	console *console.Console

	log    *slog.Logger
	level  *slog.LevelVar
	source *source

	mu       sync.Mutex // one change at a time
	config   *config.Config
	text     string            // of the file, as it was read last
	set      map[string]string // typed at the console since the last reload
	facts    map[string]config.Facts
	asked    map[string]string // the URL that the facts are of, by upstream
	reloaded time.Time
	loadedOK bool
	odd      []string // warnings of config
	work     sync.WaitGroup
	end      context.Context // of everything that the guard has started
}

// Reload implements control.Configurator.
func (g *guard) Reload(ctx context.Context) ([]control.Change, []control.Problem) {
	_ = status.Notify(status.Reloading()) // without systemd there is nobody to tell
	defer func() { _ = status.Notify("READY=1") }()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.change(ctx, nil, "", "reload")
}

// Set implements control.Configurator.
func (g *guard) Set(ctx context.Context, key, value string) ([]control.Change, []control.Problem) {
	g.mu.Lock()
	defer g.mu.Unlock()
	set := maps.Clone(g.set)
	if set == nil {
		set = make(map[string]string)
	}
	set[key] = value
	return g.change(ctx, set, g.text, "SET") // what somebody is just writing is for RELOAD
}

// change puts what a text, or the file if it is empty, and set say into force, or nothing.
// The caller holds mu.
func (g *guard) change(ctx context.Context, set map[string]string, text, by string) ([]control.Change, []control.Problem) {
	c, text, problems := g.source.read(set, text)
	var s *plan.Settings
	if len(problems) == 0 {
		var err error
		if s, err = settings(c, g.factsFor(c)); err != nil {
			problems = []config.Problem{{File: g.source.file, Message: err.Error()}}
		}
	}
	if by == "reload" {
		g.reloaded, g.loadedOK = time.Now(), len(problems) == 0
	}
	if len(problems) > 0 {
		for _, p := range problems {
			logProblem(g.log, by, p)
		}
		return nil, forPeople(problems)
	}
	if err := g.Apply(ctx, s); err != nil {
		return nil, []control.Problem{{Text: "not applied: " + err.Error()}}
	}
	changes := g.changes(c, by)
	g.config, g.text, g.set = c, text, set
	g.level.Set(c.Log.Level.Slog())
	g.askUpstreams()
	if by == "reload" {
		g.work.Go(func() { g.askAgain(g.end, always) })
	}
	return changes, nil
}

// logProblem logs why something is refused: for who sends SIGHUP the log is the only answer.
func logProblem(log *slog.Logger, by string, p config.Problem) {
	args := []any{"problem", p.Error()}
	if p.Fix != "" {
		args = append(args, "what_to_do", p.Fix)
	}
	log.Error(by+" refused, nothing has changed", args...)
}

// changes lists what is different in c and logs it.
func (g *guard) changes(c *config.Config, by string) (list []control.Change) {
	for _, d := range config.Diff(g.config, c) {
		list = append(list, control.Change{Key: d.Key, Old: d.Old, New: d.New, Restart: d.Restart})
		level := slog.LevelInfo
		if d.Restart {
			level = slog.LevelWarn
		}
		g.log.Log(context.Background(), level, by, "change", d.String(), "needs_restart", d.Restart)
	}
	g.warn(c, by)
	g.log.Info(by+" done", "changes", len(list))
	return list
}

// warn logs the warnings of c, of which a SET has only brought those that were not there.
func (g *guard) warn(c *config.Config, by string) {
	was := g.odd
	g.odd = warnings(c, time.Now())
	if by == "reload" {
		was = nil
	}
	for _, w := range g.odd {
		if !slices.Contains(was, w) {
			g.log.Warn(w)
		}
	}
}

// Warnings implements control.Configurator.
func (g *guard) Warnings() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.odd)
}

// Settings implements control.Configurator.
func (g *guard) Settings() []control.Setting {
	g.mu.Lock()
	c := g.config
	g.mu.Unlock()
	var list []control.Setting
	for _, s := range c.Settings() {
		list = append(list, control.Setting{
			Key: s.Key, Value: s.Value, Default: s.Default, Source: s.Source,
			Reload: s.Reload != config.Restart, Unit: s.Unit, Doc: s.Doc,
		})
	}
	return list
}

// lastReload says when the configuration was read last and whether it was good.
func (g *guard) lastReload() (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reloaded, g.loadedOK
}

// factsFor returns the facts that hold for the upstreams of c.
func (g *guard) factsFor(c *config.Config) map[string]config.Facts {
	facts := make(map[string]config.Facts)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if f, known := g.facts[u.Name]; known && g.asked[u.Name] == u.URL.Reveal() {
			facts[u.Name] = f
		}
	}
	return facts
}

// forPeople turns problems into what console and HTTP show.
func forPeople(problems []config.Problem) (list []control.Problem) {
	for _, p := range problems {
		list = append(list, control.Problem{Text: p.Error(), Hint: p.Fix, Where: strings.TrimRight(p.Excerpt, "\n")})
	}
	return list
}
