package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/login/roster"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/wire"
)

// roleQuery asks about a role what everybody may know: whether it may log in, how many
// milliseconds its password counts on, and of what groups it is a member, however it is.
const roleQuery = `WITH RECURSIVE up(id) AS (
 SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $1
 UNION SELECT m.roleid FROM pg_catalog.pg_auth_members m JOIN up ON m.member = up.id)
SELECT g.rolname, r.rolcanlogin,
 CASE WHEN r.rolvaliduntil IS NULL OR r.rolvaliduntil = 'infinity' THEN NULL
  WHEN r.rolvaliduntil = '-infinity' THEN '-1'
  ELSE pg_catalog.floor(1000 * extract(epoch FROM r.rolvaliduntil - pg_catalog.clock_timestamp()))::pg_catalog.int8::pg_catalog.text END
FROM up JOIN pg_catalog.pg_roles g ON g.oid = up.id, pg_catalog.pg_roles r WHERE r.rolname = $1`

// asked is who asks an upstream about roles, and what.
type asked struct {
	database, role, password string
	query                    string // auth_query; "" = only about groups
	age                      time.Duration
}

func askedOf(u *plan.Upstream, s *plan.Settings) asked {
	return asked{u.Database, u.Role, u.Password, s.Auth.Query, s.Auth.QueryAge}
}

// enlist makes a new roster where another one is to be asked, or otherwise.
func (up *cluster) enlist(u *plan.Upstream, s *plan.Settings) {
	a := askedOf(u, s)
	if up.roster.Load() != nil && up.asked == a {
		return
	}
	up.asked = a
	up.roster.Store(roster.New(roster.Options{
		Age: a.age,
		Ask: func(ctx context.Context, role string) (roster.Role, error) { return up.askRole(ctx, a, role) },
	}))
}

// request is how pgweir itself logs in. The parameters are fixed: nothing that a client has
// said, or that the role has set for itself, can change what a name in the query means.
func (a asked) request() upstream.Request {
	return upstream.Request{
		Database: a.database, Role: a.role, Credentials: login.Credentials{Password: a.password},
		Params: []wire.Param{
			{Name: "client_encoding", Value: "UTF8"},
			{Name: "search_path", Value: "pg_catalog"},
			{Name: "application_name", Value: "pgweir auth"},
			{Name: "statement_timeout", Value: "5s"},
			{Name: "default_transaction_read_only", Value: "off"},
			{Name: "standard_conforming_strings", Value: "on"},
		},
	}
}

// askRole asks what Postgres says of a role.
func (up *cluster) askRole(ctx context.Context, a asked, role string) (roster.Role, error) {
	if !utf8.ValidString(role) { // there is no such name
		return roster.Role{}, nil
	}
	if up.o.Load().Control() == 0 {
		return roster.Role{}, errors.New("no connection is kept for pgweir's own queries: it needs reserve = 1 or more")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(up.px.life, cancel)()
	questions := []login.Select{{Text: roleQuery, Args: []string{role}}}
	if a.query != "" {
		questions = append(questions, login.Select{Text: a.query, Args: []string{role}})
	}
	answers, err := up.own.run(ctx, up.link, a.request(), questions)
	if err != nil {
		return roster.Role{}, err
	}
	out, err := readRole(answers[0], time.Now())
	if err == nil && a.query != "" {
		var wrong string
		if out.Secret, wrong = readSecret(role, answers[1]); wrong != "" {
			up.px.noteUnasked(up.name, errors.New("auth_query gives "+wrong))
		}
	}
	if err != nil {
		return roster.Role{}, &roster.QueryError{Err: err}
	}
	return out, nil
}

// WithOwnConn calls f when an upstream's connection for pgweir's own queries is free, and keeps
// it from others meanwhile: f may have one to that Postgres. Without such an upstream, or
// with nothing in its reserve, f is called at once. The error is ctx's.
func (px *Proxy) WithOwnConn(ctx context.Context, upstream string, f func()) error {
	if up := px.upstream(upstream); up != nil && up.o.Load().Control() > 0 {
		if err := up.own.take(ctx); err != nil {
			return err
		}
		defer up.own.leave()
	}
	f()
	return nil
}

// readRole reads the answer to roleQuery.
func readRole(rows [][]*string, now time.Time) (r roster.Role, err error) {
	for _, row := range rows {
		if len(row) != 3 || row[0] == nil || row[1] == nil {
			return r, fmt.Errorf("%w: a row about a role", login.ErrProtocol)
		}
		r.Exists, r.NoLogin = true, *row[1] != "t"
		r.Groups = append(r.Groups, *row[0])
		if row[2] == nil {
			continue
		}
		left, err := strconv.ParseInt(*row[2], 10, 64)
		if err != nil {
			return r, fmt.Errorf("%w: a time: %w", login.ErrProtocol, err)
		}
		const longest = int64(time.Duration(1<<62) / time.Millisecond)
		r.Until = now.Add(time.Duration(min(max(left, -longest), longest)) * time.Millisecond)
	}
	slices.Sort(r.Groups)
	return r, nil
}

// readSecret reads the answer to an auth_query. What is wrong with it is for the log alone: to
// the client a role without a good answer looks like one that there is not.
func readSecret(role string, rows [][]*string) (s login.Secret, wrong string) {
	switch {
	case len(rows) == 0:
		return s, ""
	case len(rows) > 1:
		return s, "more than one row for a role"
	case len(rows[0]) < 2:
		return s, "no second column: it needs the role and its secret"
	}
	name, secret := rows[0][0], rows[0][1]
	switch {
	case secret == nil || *secret == "": // functions with OUT parameters give a row in any case
		return s, ""
	case name == nil || *name != role: // whoever it is, it is not the one who logs in
		return s, "another role in its first column than it was asked for"
	}
	s, err := login.ParseSecret(*secret)
	if err != nil {
		return login.Secret{}, "a secret that begins like a SCRAM verifier and is none"
	}
	return s, ""
}
