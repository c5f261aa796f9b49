package console

import (
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/values"
	"github.com/pgweir/pgweir/wire"
)

// command is a statement that was understood.
type command struct {
	verb  string // upper case: SHOW, PAUSE, SET, ...
	arg   string // a database, an id, a table: as the verb needs it; "" = none
	value string // of SET
	items []item // of SELECT
}

// parse understands a query: all of it or nothing, as Postgres does.
func (c *Console) parse(query string) ([]command, error) {
	statements, err := split(query)
	if err != nil {
		return nil, err
	}
	list := make([]command, len(statements))
	for i, s := range statements {
		if list[i], err = c.command(s); err != nil {
			return nil, at(query, err)
		}
	}
	return list, nil
}

// argument says what may follow a verb.
type argument uint8

const (
	nothing  argument = iota
	perhaps           // a database, or nothing for all
	database          // a database
	number            // an id
	mode              // of a shutdown
)

// verbs are the commands with at most one argument.
func verbs() map[string]argument {
	return map[string]argument{
		"PAUSE": perhaps, "RESUME": perhaps, "RECONNECT": perhaps, "KILL": perhaps, "WAIT_CLOSE": perhaps,
		"DISABLE": database, "ENABLE": database, "KILL_CLIENT": number,
		"RELOAD": nothing, "SUSPEND": nothing, "SHUTDOWN": mode,
	}
}

// command understands one statement.
func (c *Console) command(s statement) (command, error) {
	for _, t := range s.tokens {
		if t.kind == param {
			return command{}, undefinedParameter(t)
		}
	}
	first := s.tokens[0]
	verb := strings.ToUpper(first.text)
	switch {
	case first.kind != word:
		return command{}, c.unknown(first)
	case verb == "SHOW":
		return c.show(s)
	case verb == "SET":
		return set(s)
	case verb == "SELECT":
		return selection(s)
	}
	if a, ok := verbs()[verb]; ok {
		return simple(s, verb, a)
	}
	if cmd, ok := chatter(s, verb); ok {
		return cmd, nil
	}
	if isSQL(verb) {
		return command{}, noSQL(first)
	}
	return command{}, c.unknown(first)
}

func undefinedParameter(t token) error {
	f := syntax(t.from, "there is no parameter %s", shorten(t.text)).because("The console takes no parameters: write the value into the command.")
	f.code = "42P02"
	return f
}

// unknown complains about the first word of a statement.
func (c *Console) unknown(t token) error {
	f := syntax(t.from, "unknown command: %s", shorten(t.text))
	known := []string{"SHOW", "SET"}
	for v := range verbs() {
		known = append(known, v)
	}
	near := values.Nearest(strings.ToUpper(t.text), sorted(known))
	if _, ok := c.views[strings.ToUpper(t.text)]; ok && near == "" {
		near = "SHOW " + strings.ToUpper(t.text)
	}
	if near != "" {
		return f.because("Did you mean " + near + "? SHOW HELP lists all commands.")
	}
	return f.because("SHOW HELP lists all commands.")
}

// isSQL reports whether a statement that begins so is meant for a database.
func isSQL(verb string) bool {
	const all = " INSERT UPDATE DELETE MERGE WITH COPY EXPLAIN CREATE ALTER DROP TRUNCATE VACUUM ANALYZE TABLE VALUES DO" +
		" CALL GRANT REVOKE LOCK LISTEN NOTIFY DECLARE FETCH MOVE PREPARE EXECUTE SAVEPOINT RELEASE COMMENT CLUSTER REINDEX REFRESH "
	return strings.Contains(all, " "+verb+" ")
}

func noSQL(t token) error {
	f := syntax(t.from, "this is pgweir's console, it runs no SQL")
	f.code = wire.CodeFeatureNotSupported
	return f.because("Connect to another database for SQL; SHOW HELP lists what can be asked here.")
}

// simple understands a verb with at most one argument.
func simple(s statement, verb string, a argument) (command, error) {
	rest := s.tokens[1:]
	cmd := command{verb: verb}
	if len(rest) == 0 {
		switch a {
		case database:
			return cmd, syntax(s.tokens[0].to, "%s needs a database", verb)
		case number:
			return cmd, syntax(s.tokens[0].to, "%s needs the id of a client", verb).because("SHOW CLIENTS has them in its column id.")
		}
		return cmd, nil
	}
	if a == nothing {
		return cmd, syntax(rest[0].from, "%s takes nothing behind it", verb)
	}
	if a == number && len(rest) > 1 {
		return cmd, notAnID(rest[0], s.from(1))
	}
	if len(rest) > 1 {
		return cmd, syntax(rest[1].from, "%s takes one argument", verb).because(`Write a name with special characters in quotes: "my-db".`)
	}
	cmd.arg = rest[0].text
	switch {
	case cmd.arg == "" || rest[0].kind == other:
		return cmd, syntax(rest[0].from, "%s takes a name", verb).because(`Write a name with special characters in quotes: "my*db".`)
	case a == number:
		if _, err := strconv.ParseUint(cmd.arg, 10, 64); err != nil {
			return cmd, notAnID(rest[0], cmd.arg)
		}
	case a == mode:
		cmd.arg = strings.ToUpper(cmd.arg)
		if cmd.arg != "WAIT_FOR_SERVERS" && cmd.arg != "WAIT_FOR_CLIENTS" {
			return cmd, syntax(rest[0].from, "SHUTDOWN does not know %s", shorten(rest[0].text)).
				because("Write SHUTDOWN, SHUTDOWN WAIT_FOR_SERVERS or SHUTDOWN WAIT_FOR_CLIENTS.")
		}
	}
	return cmd, nil
}

func notAnID(t token, what string) error {
	return syntax(t.from, "not the id of a client: %s", shorten(what)).because("SHOW CLIENTS has them in its column id.")
}

// show understands SHOW: a table of the console, or a parameter that drivers ask for.
func (c *Console) show(s statement) (command, error) {
	rest := s.tokens[1:]
	if len(rest) == 0 {
		return command{}, syntax(s.tokens[0].to, "SHOW what?").because("SHOW HELP lists all tables.")
	}
	var parts []string
	for _, t := range rest {
		if t.kind != word && t.kind != quoted {
			return command{}, syntax(t.from, "SHOW takes a name")
		}
		parts = append(parts, t.text)
	}
	name := strings.ToUpper(strings.Join(parts, "_"))
	if _, ok := c.views[name]; ok && len(rest) == 1 {
		return command{verb: "SHOW", arg: name}, nil
	}
	if p, ok := alias(name); ok {
		return command{verb: "PARAMETER", arg: p}, nil
	}
	if first := strings.ToUpper(parts[0]); len(parts) > 1 && c.views[first] != nil && values.Nearest(name, c.names) == "" {
		return command{}, syntax(rest[1].from, "SHOW %s takes nothing behind it", first)
	}
	f := syntax(rest[0].from, "SHOW does not know %s", shorten(s.from(1)))
	switch near := values.Nearest(name, c.names); {
	case name == "FDS":
		f.code = wire.CodeFeatureNotSupported
		return command{}, f.because("PgBouncer hands its sockets over with it. Start a second pgweir on the same port (so_reuseport) and end the first with SHUTDOWN WAIT_FOR_CLIENTS.")
	case name == "ALL":
		return command{}, f.because("Did you mean SHOW CONFIG?")
	case near != "":
		return command{}, f.because("Did you mean SHOW " + near + "? SHOW HELP lists all tables.")
	}
	return command{}, f.because("SHOW HELP lists all tables.")
}

// set understands SET in its forms.
func set(s statement) (command, error) {
	i := 1
	for i < len(s.tokens) && (s.tokens[i].is("SESSION") || s.tokens[i].is("LOCAL")) {
		i++
	}
	if cmd, ok := setWords(s, i); ok {
		return cmd, nil
	}
	key, next := setKey(s, i)
	if key == "" {
		return command{}, syntax(s.tokens[min(i, len(s.tokens)-1)].from, "SET needs a key").because("Write SET key = value; SHOW CONFIG has the keys.")
	}
	if next >= len(s.tokens) || !s.tokens[next].sign("=") && !s.tokens[next].is("TO") {
		return command{}, syntax(s.tokens[min(next, len(s.tokens)-1)].from, "SET needs = and a value").because("Write SET key = value.")
	}
	next++
	if next >= len(s.tokens) {
		return command{}, syntax(s.tokens[next-1].to, "SET needs a value").because("Write SET key = value.")
	}
	return command{verb: "SET", arg: key, value: setValue(s, next)}, nil
}

// setWords understands the forms of SET that have words of their own.
func setWords(s statement, i int) (command, bool) {
	rest := s.tokens[i:]
	switch {
	case len(rest) == 3 && rest[0].is("TIME") && rest[1].is("ZONE"):
		return command{verb: "SET", arg: "timezone", value: rest[2].text}, true
	case len(rest) == 2 && rest[0].is("NAMES"):
		return command{verb: "SET", arg: "client_encoding", value: rest[1].text}, true
	case len(rest) > 1 && (rest[0].is("TRANSACTION") || rest[0].is("CHARACTERISTICS")):
		return command{verb: "OK", arg: "SET"}, true
	}
	return command{}, false
}

// setKey reads a key, of which parts may be quoted, and returns where it ends. It is
// written as SHOW CONFIG does: parts that are no bare words are in quotes.
func setKey(s statement, i int) (string, int) {
	var b strings.Builder
	for n, t := range s.tokens[min(i, len(s.tokens)):] {
		if t.kind != word && t.kind != quoted || n > 0 && t.from != s.tokens[i+n-1].to {
			return b.String(), i + n
		}
		bare := strings.Trim(t.text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" && t.text != ""
		if t.kind == quoted && !bare {
			b.WriteString(strconv.Quote(t.text))
		} else {
			b.WriteString(t.text)
		}
	}
	return b.String(), len(s.tokens)
}

// setValue is the value of a SET: one quoted text without its quotes, and else what was
// written.
func setValue(s statement, i int) string {
	if t := s.tokens[i]; i == len(s.tokens)-1 && (t.kind == text || t.kind == quoted) {
		return t.text
	}
	return s.from(i)
}

// shorten bounds what an error repeats.
func shorten(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "..."
	}
	return s
}
