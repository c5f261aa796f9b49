package console

import (
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/wire"
)

// chatter understands what drivers say of their own accord. Nothing of it has an effect,
// except that BEGIN and COMMIT are reflected in what ReadyForQuery says.
func chatter(s statement, verb string) (command, bool) {
	switch verb {
	case "BEGIN":
		return command{verb: "BEGIN", arg: "BEGIN"}, true
	case "START":
		return command{verb: "BEGIN", arg: "START TRANSACTION"}, len(s.tokens) > 1 && s.tokens[1].is("TRANSACTION")
	case "COMMIT", "END":
		return command{verb: "COMMIT", arg: "COMMIT"}, true
	case "ROLLBACK", "ABORT":
		return command{verb: "COMMIT", arg: "ROLLBACK"}, true
	case "RESET":
		return command{verb: "OK", arg: "RESET"}, len(s.tokens) > 1
	case "DISCARD":
		return command{verb: "OK", arg: "DISCARD ALL"}, len(s.tokens) == 2
	case "UNLISTEN":
		return command{verb: "OK", arg: "UNLISTEN"}, len(s.tokens) == 2
	case "CLOSE":
		return command{verb: "OK", arg: "CLOSE CURSOR ALL"}, len(s.tokens) == 2 && s.tokens[1].is("ALL")
	case "DEALLOCATE":
		return deallocate(s.tokens[1:])
	}
	return command{}, false
}

func deallocate(rest []token) (command, bool) {
	if len(rest) > 1 && rest[0].is("PREPARE") {
		rest = rest[1:]
	}
	switch {
	case len(rest) != 1:
		return command{}, false
	case rest[0].is("ALL"):
		return command{verb: "DEALLOCATE"}, true
	}
	return command{verb: "DEALLOCATE", arg: rest[0].text}, true
}

// parameters are the settings of Postgres that drivers ask for or set, with what they are
// in the console. They have no effect.
func parameters() map[string]string {
	return map[string]string{
		"application_name": "", "bytea_output": "hex", "client_encoding": "UTF8", "client_min_messages": "notice",
		"datestyle": "ISO, MDY", "default_transaction_isolation": "read committed", "default_transaction_read_only": "off",
		"extra_float_digits": "1", "idle_in_transaction_session_timeout": "0", "in_hot_standby": "off",
		"integer_datetimes": "on", "intervalstyle": "postgres", "is_superuser": "off", "lc_messages": "C",
		"lock_timeout": "0", "max_identifier_length": "63", "row_security": "on", "search_path": "",
		"server_encoding": "UTF8", "server_version": "", "server_version_num": "140000", "session_authorization": "",
		"standard_conforming_strings": "on", "statement_timeout": "0", "synchronize_seqscans": "on",
		"timezone": "UTC", "transaction_isolation": "read committed", "transaction_read_only": "off",
	}
}

// alias finds the parameter that SHOW means, by its words joined with _ in upper case.
func alias(name string) (string, bool) {
	switch name {
	case "TRANSACTION_ISOLATION_LEVEL":
		return "transaction_isolation", true
	case "TIME_ZONE":
		return "timezone", true
	}
	name = strings.ToLower(name)
	_, ok := parameters()[name]
	return name, ok
}

// reported are the parameters that clients are told of, as Postgres spells them.
func reported() []string {
	return []string{
		"application_name", "client_encoding", "DateStyle", "default_transaction_read_only", "in_hot_standby",
		"integer_datetimes", "IntervalStyle", "is_superuser", "server_encoding", "server_version",
		"session_authorization", "standard_conforming_strings", "TimeZone",
	}
}

// pretend sets a parameter of this session and tells the client, if it is one of those.
func (s *session) pretend(name, value string) error {
	switch name {
	case "client_encoding":
		plain := strings.ToUpper(strings.NewReplacer("-", "", "_", "").Replace(value))
		if !slices.Contains([]string{"UTF8", "UNICODE", "SQLASCII", "DEFAULT", "AUTO"}, plain) {
			return fail(wire.CodeInvalidParameterValue, "the console speaks UTF8 only, not %s", shorten(value))
		}
		value = "UTF8"
	case "server_version", "server_version_num", "server_encoding", "integer_datetimes", "is_superuser",
		"session_authorization", "in_hot_standby", "max_identifier_length", "standard_conforming_strings":
		if !strings.EqualFold(value, s.params[name]) && !strings.EqualFold(value, "DEFAULT") {
			return fail("55P02", "parameter %q cannot be changed in the console", name)
		}
		return nil
	}
	if strings.EqualFold(value, "DEFAULT") {
		value = parameters()[name]
	}
	s.params[name] = value
	for _, n := range reported() {
		if strings.EqualFold(n, name) {
			s.out.send(&pgproto3.ParameterStatus{Name: n, Value: clean(value)}, len(value))
		}
	}
	return nil
}

// item is one column of a SELECT: a constant, or a function that drivers ask for.
type item struct {
	name  string
	typ   typ
	fixed string // value of a constant
	null  bool
	call  string // name of a function; "" = a constant
}

// selection understands a SELECT of constants and a few functions, separated by commas.
func selection(s statement) (command, error) {
	cmd := command{verb: "SELECT"}
	rest := s.tokens[1:]
	for len(rest) > 0 {
		it, used := selectItem(rest)
		if used == 0 || len(cmd.items) == 100 {
			return cmd, noSQL(s.tokens[0])
		}
		cmd.items = append(cmd.items, it)
		rest = rest[used:]
		switch {
		case len(rest) == 0:
			return cmd, nil
		case !rest[0].sign(","):
			return cmd, noSQL(s.tokens[0])
		}
		rest = rest[1:]
	}
	return cmd, noSQL(s.tokens[0])
}

// selectItem understands one item and tells how many tokens it has; 0 = not understood.
func selectItem(t []token) (it item, used int) {
	it = item{name: "?column?", typ: str}
	used = 1
	_, err := strconv.ParseInt(t[0].text, 10, 64)
	switch {
	case t[0].kind == text:
		it.fixed = t[0].text
	case t[0].kind == word && err == nil:
		it.typ, it.fixed = integer, t[0].text
	case t[0].is("NULL"):
		it.null = true
	case t[0].is("TRUE"), t[0].is("FALSE"):
		it.name, it.typ, it.fixed = "bool", boolean, strings.ToLower(t[0].text)
	case t[0].kind == word:
		if used = function(t, &it); used == 0 {
			return it, 0
		}
	default:
		return it, 0
	}
	if len(t) > used+2 && t[used].sign(":") && t[used+1].sign(":") && t[used+2].is("TEXT") && it.typ == str {
		used += 3
	}
	switch {
	case len(t) > used+1 && t[used].is("AS") && t[used+1].kind <= quoted:
		it.name = t[used+1].text
		used += 2
	case len(t) > used && t[used].kind <= quoted && !t[used].is("FROM") && !t[used].is("WHERE"):
		it.name = t[used].text
		used++
	}
	return it, used
}

// function understands a call without arguments, or one of the words that need no
// parentheses.
func function(t []token, it *item) int {
	it.call = strings.TrimPrefix(strings.ToLower(t[0].text), "pg_catalog.")
	it.name = it.call
	calls := len(t) > 2 && t[1].sign("(") && t[2].sign(")")
	switch it.call {
	case "current_user", "session_user", "user", "current_role", "current_catalog":
		return 1
	case "current_schema":
		it.null = true
		if !calls {
			return 1
		}
		return 3
	case "version", "current_database":
	case "pg_backend_pid":
		it.typ = integer
	case "pg_is_in_recovery":
		it.typ = boolean
	default:
		return 0
	}
	if !calls {
		return 0
	}
	return 3
}

// evaluate adds the value of an item to a row.
func (s *session) evaluate(it item, r *row) {
	value := it.fixed
	switch it.call {
	case "version":
		value = "pgweir " + s.c.o.Version
	case "current_database", "current_catalog":
		value = s.who.Database
	case "current_user", "session_user", "user", "current_role":
		value = s.who.User
	case "pg_backend_pid":
		r.number(int64(s.who.Key.PID))
		return
	}
	switch {
	case it.null:
		r.null()
	case it.typ == integer:
		n, _ := strconv.ParseInt(value, 10, 64) // the parser has tried
		r.number(n)
	case it.typ == boolean:
		r.truth(value == "true")
	default:
		r.text(value)
	}
}
