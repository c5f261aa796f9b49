package console

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/wire"
)

// planControl makes a plan of a command that changes something.
func (s *session) planControl(cmd command) *plan {
	p := &plan{tag: cmd.verb, admin: true}
	p.waits = cmd.verb == "PAUSE" || cmd.verb == "WAIT_CLOSE"
	p.do = func(ctx context.Context) error {
		s.c.o.Log.Info("console command", "command", cmd.verb, "argument", cmd.arg, "user", s.who.User, "client", s.who.Addr)
		return s.known(cmd, s.control(ctx, cmd))
	}
	return p
}

// control carries out a command.
func (s *session) control(ctx context.Context, cmd command) error {
	g := s.c.guard
	switch cmd.verb {
	case "PAUSE":
		return s.pause(ctx, cmd.arg)
	case "RESUME":
		return s.resume(ctx, cmd.arg)
	case "RECONNECT":
		return g.Reconnect(ctx, cmd.arg)
	case "WAIT_CLOSE":
		return interrupted(ctx, g.WaitClose(ctx, cmd.arg))
	case "KILL":
		return g.Kill(ctx, cmd.arg)
	case "KILL_CLIENT":
		id, err := strconv.ParseUint(cmd.arg, 10, 64)
		if err != nil {
			return err // the parser has tried: it does not happen
		}
		return g.KillClient(ctx, id)
	case "DISABLE":
		return g.Disable(ctx, cmd.arg)
	case "ENABLE":
		return g.Enable(ctx, cmd.arg)
	case "RELOAD":
		changes, problems := g.Reload(ctx)
		if err := s.changed("RELOAD", changes, problems); err != nil {
			return err
		}
		s.warned(g.Warnings())
		return nil
	case "SUSPEND":
		return fail(wire.CodeFeatureNotSupported, "pgweir has no SUSPEND").
			because("PAUSE is for a restart of Postgres. To replace pgweir itself, start a second one on the same port (so_reuseport) and SHUTDOWN WAIT_FOR_CLIENTS this one.")
	case "SHUTDOWN":
		s.shutdown(cmd.arg)
		return nil
	}
	return fail(wire.CodeInternalError, "no way to do %s", cmd.verb)
}

// interrupted prefers the reason for the end of ctx.
func interrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// pause pauses, and says that the pause goes on if nobody waits for it any more.
func (s *session) pause(ctx context.Context, database string) error {
	ahead, err := s.c.guard.Pause(ctx, database)
	err = interrupted(ctx, err)
	if ahead && err == nil {
		s.notice("NOTICE", "no client has used database "+shorten(database)+" yet: it is paused for those who come", "")
	}
	if errors.Is(err, errCancelled) || errors.Is(err, errGone) {
		s.notice("NOTICE", "the pause goes on: no server is given to clients, and those that are busy are closed when they are free",
			strings.TrimSpace("RESUME "+database)+" ends it.")
	}
	return err
}

func (s *session) resume(ctx context.Context, database string) error {
	changed, err := s.c.guard.Resume(ctx, database)
	if err != nil || changed {
		return err
	}
	if database == "" {
		return fail("55000", "pgweir is not paused")
	}
	return fail("55000", "database %s is not paused", shorten(database))
}

// shutdown starts the end as soon as the answer is out.
func (s *session) shutdown(arg string) {
	how := control.Now
	switch arg {
	case "WAIT_FOR_SERVERS":
		how = control.WaitForServers
	case "WAIT_FOR_CLIENTS":
		how = control.WaitForClients
	}
	s.after = append(s.after, func() { s.c.guard.Shutdown(how) })
}

// known turns the guard's errors into what an administrator understands.
func (s *session) known(cmd command, err error) error {
	switch {
	case errors.Is(err, control.ErrNoDatabase):
		return fail(wire.CodeInvalidCatalogName, "no such database: %s", shorten(cmd.arg)).because("SHOW DATABASES lists them.")
	case errors.Is(err, control.ErrTooManyNames):
		return fail(wire.CodeConfigurationLimit, "%s are paused or disabled", err).because("RESUME or ENABLE some of them, or PAUSE everything.")
	case errors.Is(err, control.ErrNoClient):
		return fail(wire.CodeUndefinedObject, "no such client: %s", shorten(cmd.arg)).because("SHOW CLIENTS lists them; the column is id.")
	}
	return err
}

// planSet makes a plan of SET: what drivers set is for this session, all else is
// configuration.
func (s *session) planSet(cmd command) *plan {
	if name := strings.ToLower(cmd.arg); name != "" {
		if _, ok := parameters()[name]; ok {
			return &plan{tag: "SET", do: func(context.Context) error { return s.pretend(name, cmd.value) }}
		}
	}
	return &plan{tag: "SET", admin: true, do: func(ctx context.Context) error {
		// not the value: it may be a secret
		s.c.o.Log.Info("console command", "command", "SET", "argument", cmd.arg, "user", s.who.User, "client", s.who.Addr)
		changes, problems := s.c.guard.Set(ctx, cmd.arg, cmd.value)
		return s.changed("SET", changes, problems)
	}}
}

// mostLines bounds the changes and problems that are told one by one.
const mostLines = 200

// changed tells what a reload or SET has changed, or why it has changed nothing.
func (s *session) changed(what string, changes []control.Change, problems []control.Problem) error {
	if len(problems) > 0 {
		return refusedChange(what, problems)
	}
	if len(changes) == 0 {
		s.notice("NOTICE", "nothing has changed", "")
	}
	for i, c := range changes {
		if i == mostLines {
			s.notice("NOTICE", fmt.Sprintf("and %d more changes", len(changes)-i), "")
			break
		}
		line := c.Key + ": " + or(c.Old, "(none)") + " -> " + or(c.New, "(none)")
		if c.Restart {
			s.notice(wire.SeverityWarning, line, "It takes effect at the next start.")
		} else {
			s.notice("NOTICE", line, "")
		}
	}
	return nil
}

// warned tells what is odd about the configuration in force.
func (s *session) warned(list []string) {
	for i, w := range list {
		if i == mostLines {
			s.notice(wire.SeverityWarning, fmt.Sprintf("and %d more", len(list)-i), "")
			break
		}
		s.notice(wire.SeverityWarning, w, "")
	}
}

// refusedChange is the error with all problems.
func refusedChange(what string, problems []control.Problem) error {
	f := fail("F0000", "%s refused: there is a problem, nothing has changed", what)
	if len(problems) > 1 {
		f = fail("F0000", "%s refused: there are %d problems, nothing has changed", what, len(problems))
	}
	if what == "SET" {
		f.code = wire.CodeInvalidParameterValue
	}
	var b strings.Builder
	for i, p := range problems {
		if i == mostLines {
			fmt.Fprintf(&b, "\nand %d more", len(problems)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Text)
		for _, more := range []string{p.Where, p.Hint} {
			if more != "" {
				b.WriteString("\n" + more)
			}
		}
	}
	f.detail = b.String()
	if len(problems) == 1 && problems[0].Hint != "" {
		f.detail = strings.TrimSuffix(f.detail, "\n"+problems[0].Hint)
		f.hint = problems[0].Hint
	}
	return f
}
