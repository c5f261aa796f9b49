package sqltext

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// Setting is what a statement makes of one parameter of the session.
type Setting struct {
	Name string // lower-cased; "all" with Reset is every parameter that RESET ALL sets back
	// Value is what set_config takes for the same: of a list, what Postgres makes of it.
	Value string
	Reset bool // back to the default; Value is empty
}

// Settings returns what the statement sets for the session when it succeeds: for Set and Reset,
// and for a Read that consists of calls of set_config with literals. The list is empty for
// SetLocal and for calls that are local. known is false if there may be more than the list
// says. The text must be the one that was classified.
func (s Statement) Settings(text []byte) (list []Setting, known bool) {
	switch s.Kind {
	case SetLocal:
		return nil, true
	case Reset:
		return []Setting{{Name: s.Name(text), Reset: true}}, true
	case Read:
		if s.Flags&(Session|Multi|Temp|Advisory) != Session {
			return nil, false
		}
		return configCalls(text)
	case Set:
	default:
		return nil, false
	}
	if s.alias == aliasCharacteristics {
		return characteristics(text[s.nameEnd:])
	}
	name := s.Name(text)
	sc := scanner{src: text, pos: int(s.nameEnd)}
	switch s.alias {
	case aliasNone:
		sc.next() // "=" or TO
	case aliasSchema, aliasRole, aliasAuthorization:
	default:
		return nil, false // reported by every server
	}
	value, reset, ok := flatten(&sc, listQuoted(name))
	if !ok || sc.ambiguous || sc.broken {
		return nil, false
	}
	return []Setting{{Name: name, Value: value, Reset: reset}}, true
}

// flatten reads the values of a SET to the end of the statement and joins them as Postgres
// does. reset says that it is DEFAULT.
func flatten(sc *scanner, quoted bool) (value string, reset, ok bool) {
	var b strings.Builder
	for n := 0; ; n++ {
		t := sc.next()
		if n == 0 && t == tokWord && strings.EqualFold(string(sc.text()), "default") {
			t = sc.next()
			return "", true, t == tokEOF || t == tokSemicolon
		}
		if n > 0 {
			b.WriteString(", ")
		}
		item, number, fine := literalValue(sc, t)
		if !fine {
			return "", false, false
		}
		if quoted && !number {
			item = QuoteIdent(item)
		}
		b.WriteString(item)
		switch sc.next() {
		case tokComma:
		case tokEOF, tokSemicolon:
			return b.String(), false, true
		default:
			return "", false, false
		}
	}
}

// maxIdent is how much of an identifier counts in Postgres, in bytes.
const maxIdent = 63

// literalValue returns what the current token, of the kind t, stands for as a value.
func literalValue(sc *scanner, t token) (value string, number, ok bool) {
	raw := sc.text()
	if sc.broken {
		return "", false, false
	}
	switch t {
	case tokWord:
		if len(raw) > maxIdent || !ascii(raw) {
			return "", false, false
		}
		word := bytes.Clone(raw)
		lower(word)
		return string(word), false, true
	case tokQuoted:
		name := strings.ReplaceAll(string(raw[1:len(raw)-1]), `""`, `"`)
		return name, false, len(name) <= maxIdent
	case tokNumber:
		value, ok = numeral(raw)
		return value, true, ok
	case tokSymbol:
		sign := raw[0]
		if sign != '-' && sign != '+' || sc.next() != tokNumber {
			return "", false, false
		}
		value, ok = numeral(sc.text())
		if sign == '-' {
			value = "-" + value
		}
		return value, true, ok
	}
	value, ok = stringValue(raw, t)
	return value, false, ok
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// numeral is what Postgres writes for a number of the text: integers without leading zeros, all
// others as they are. Those with a base or with underscores are not known here.
func numeral(raw []byte) (string, bool) {
	if digits(raw) {
		if n, err := strconv.ParseUint(string(raw), 10, 64); err == nil && n <= math.MaxInt32 {
			return strconv.FormatUint(n, 10), true
		}
	}
	for _, c := range raw {
		if !digit(c) && c != '.' && c|0x20 != 'e' && c != '+' && c != '-' {
			return "", false
		}
	}
	return string(raw), true
}

// stringValue is what a string stands for, if every server reads it alike.
func stringValue(raw []byte, t token) (string, bool) {
	switch t {
	case tokString:
		raw = raw[bytes.IndexByte(raw, '\''):]
		if bytes.IndexByte(raw, '\\') >= 0 {
			return "", false
		}
		return strings.ReplaceAll(string(raw[1:len(raw)-1]), "''", "'"), true
	case tokEscape:
		return decodeEscapes(raw[2 : len(raw)-1])
	case tokDollar:
		tag := bytes.IndexByte(raw[1:], '$') + 2
		return string(raw[tag : len(raw)-tag]), true
	}
	return "", false
}

// decodeEscapes reads the inside of E'...' with the escapes of one letter.
func decodeEscapes(raw []byte) (string, bool) {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '\'':
			i++
			if i == len(raw) || raw[i] != '\'' {
				return "", false // continued on another line
			}
		case c == '\\':
			i++
			if i == len(raw) {
				return "", false
			}
			switch c = raw[i]; c {
			case '\\', '\'', '"':
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			default:
				return "", false
			}
		}
		out = append(out, c)
	}
	return string(out), true
}

// listQuoted tells the parameters whose values are lists of identifiers; no extension may
// have any.
func listQuoted(name string) bool {
	switch name {
	case "search_path", "temp_tablespaces", "local_preload_libraries", "session_preload_libraries",
		"shared_preload_libraries", "unix_socket_directories":
		return true
	}
	return false
}

// QuoteIdent returns a name as quote_ident does: in quotes unless it is safe without.
func QuoteIdent(name string) string {
	safe := name != ""
	for i := range len(name) {
		c := name[i]
		safe = safe && (c == '_' || 'a' <= c && c <= 'z' || i > 0 && digit(c))
	}
	if word := []byte(name); safe && !quotable(lookup(foldHead(word), word)) && !columnWord(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// quotable tells the words that may stand for a name only in quotes.
func quotable(k keyword) bool { return k != kwNone && !k.identifier() }

// columnWord tells the words that may be the name of a column, but not of a function or
// type; these are put into quotes, too. Versions differ in some.
func columnWord(name string) bool {
	switch name {
	case "between", "bigint", "bit", "boolean", "char", "character", "coalesce", "dec", "decimal", "exists", "extract",
		"float", "greatest", "grouping", "inout", "int", "integer", "interval", "least", "national", "nchar", "none",
		"normalize", "nullif", "numeric", "out", "overlay", "position", "precision", "real", "row", "setof", "smallint",
		"substring", "time", "timestamp", "treat", "trim", "values", "varchar", "xmlattributes", "xmlconcat", "xmlelement",
		"xmlexists", "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "xmltable":
		return true
	}
	return false
}

// characteristics reads the modes of SET SESSION CHARACTERISTICS from behind that word.
func characteristics(text []byte) (list []Setting, known bool) {
	sc := scanner{src: text}
	var words []string
	for t := sc.next(); t != tokEOF && t != tokSemicolon; t = sc.next() {
		words = append(words, strings.ToLower(string(sc.text())))
	}
	put := func(name, value string) {
		list = append(list, Setting{Name: "default_transaction_" + name, Value: value})
	}
	for i := 2; i < len(words); i++ { // AS TRANSACTION
		switch rest := words[i:]; {
		case rest[0] == "isolation" && len(rest) > 2:
			level := rest[2]
			i += 2
			if level != "serializable" && len(rest) > 3 {
				level += " " + rest[3]
				i++
			}
			put("isolation", level)
		case rest[0] == "read" && len(rest) > 1:
			value := "off"
			if rest[1] == "only" {
				value = "on"
			}
			put("read_only", value)
			i++
		case rest[0] == "not":
			put("deferrable", "off")
			i++
		case rest[0] == "deferrable":
			put("deferrable", "on")
		}
	}
	return list, true
}

// configCalls reads SELECT set_config(name, value, is_local), ... of literals alone.
func configCalls(text []byte) (list []Setting, known bool) {
	sc := scanner{src: text}
	word := func(t token, w string) bool { return t == tokWord && strings.EqualFold(string(sc.text()), w) }
	if !word(sc.next(), "select") {
		return nil, false
	}
	for {
		t := sc.next()
		if word(t, "pg_catalog") {
			if sc.next() != tokDot {
				return nil, false
			}
			t = sc.next()
		}
		if !word(t, "set_config") || sc.next() != tokOpen {
			return nil, false
		}
		set, local, ok := configCall(&sc)
		if !ok {
			return nil, false
		}
		if !local {
			list = append(list, set)
		}
		t = sc.next()
		if word(t, "as") {
			if t = sc.next(); t != tokWord && t != tokQuoted {
				return nil, false
			}
			t = sc.next()
		}
		switch t {
		case tokComma:
		case tokSemicolon, tokEOF:
			return list, !sc.ambiguous && !sc.broken
		default:
			return nil, false
		}
	}
}

// configCall reads the arguments of one call, up to the closing parenthesis.
func configCall(sc *scanner) (set Setting, local, ok bool) {
	t := sc.next()
	name, _, ok := literalValue(sc, t)
	if t < tokString || t > tokDollar || !ok || name == "" || sc.next() != tokComma {
		return set, false, false
	}
	set.Name = strings.ToLower(name)
	switch t := sc.next(); {
	case t == tokWord && strings.EqualFold(string(sc.text()), "null"):
		set.Reset = true
	case t < tokString || t > tokDollar:
		return set, false, false
	default:
		if set.Value, _, ok = literalValue(sc, t); !ok {
			return set, false, false
		}
	}
	if sc.next() != tokComma {
		return set, false, false
	}
	switch t := sc.next(); strings.ToLower(string(sc.text())) {
	case "true":
		if local = t == tokWord; !local {
			return set, false, false
		}
	case "false", "'f'", "'false'", "'off'":
	default:
		return set, false, false
	}
	return set, local, sc.next() == tokClose
}
