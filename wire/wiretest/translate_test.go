package wiretest

import (
	"fmt"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// toSQL translates a text of the fake's language into SQL that does the same.
func toSQL(text string) string {
	sentences, err := lex(text)
	if err != nil || len(sentences) == 0 {
		return text
	}
	var out []string
	for _, s := range sentences {
		p := &parser{t: s.tokens, s: &stmt{text: s.text}}
		if !p.statement() || p.i < len(p.t) {
			out = append(out, s.text)
			continue
		}
		out = append(out, sentenceSQL(p.s))
	}
	return strings.Join(out, ";")
}

func sentenceSQL(s *stmt) string {
	raise := func(code, text string) string {
		return fmt.Sprintf("raise exception using errcode='%s', message='%s'", code, text)
	}
	do := func(body string) string { return "do $$ begin " + body + "; end $$" }
	current := func(names []string) string {
		return fmt.Sprintf(`select name || '=' || current_setting(name) as whoami from pg_settings
where lower(name) in ('%s') order by lower(name) collate "C"`, strings.Join(names, "','"))
	}
	switch s.kind {
	case kRows:
		return fmt.Sprintf("select repeat('x', %d) as rows from generate_series(1, %d)", s.k, s.n)
	case kNonce:
		if s.param > 0 {
			return fmt.Sprintf("select $%d::text as nonce", s.param)
		}
		return fmt.Sprintf("select '%s'::text as nonce", s.value)
	case kSleep:
		if s.name != "pg_sleep" {
			return s.text
		}
		return fmt.Sprintf("select pg_sleep(%d / 1000.0)", s.n)
	case kSleepFail:
		return do(fmt.Sprintf("perform pg_sleep(%d / 1000.0); %s", s.n, raise("22012", "division by zero")))
	case kInsert:
		return fmt.Sprintf("insert into public.t select 'x' from generate_series(1, %d)", s.n)
	case kFail:
		return do(raise(s.value, "forced failure "+s.value))
	case kNotice:
		return do(fmt.Sprintf("raise notice '%s'", s.value))
	case kWhoami:
		if s.fails {
			return current(append(tracked(), others()...))
		}
		return current(tracked())
	case kTemp:
		return strings.Replace(s.text, s.name, s.name+"()", 1)
	case kLeft:
		return `select coalesce(string_agg(x, ', ' order by x collate "C"), '') as "left" from (
select 'prepared ' || name as x from pg_prepared_statements where from_sql
union all select 'listens ' || c from pg_listening_channels() c
union all select 'temp ' || relname from pg_class where relnamespace = pg_my_temp_schema()
union all select 'cursor ' || name from pg_cursors where is_holdable
union all select 'lock ' || objid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) all_of_it`
	case kCopyIn:
		if !s.fails {
			return "copy public.t from stdin"
		}
		if s.n == 0 {
			return "copy public.tb from stdin"
		}
		return fmt.Sprintf("copy public.tf%d from stdin", s.n)
	case kCopyOut:
		return fmt.Sprintf("copy (select repeat('x', %d) from generate_series(1, %d)) to stdout", s.k, s.n)
	}
	return s.text
}

// translate rewrites the texts in what a client sends; a partial message at the
// end stays as it is.
func translate(b []byte) []byte {
	msgs, rest := Messages(b)
	var out []byte
	for _, m := range msgs {
		r := &reader{b: m.Body}
		name, text := "", ""
		if m.Type == wire.MsgParse {
			name = r.string()
		}
		if m.Type == wire.MsgParse || m.Type == wire.MsgQuery {
			text = r.string()
		}
		switch {
		case r.err != nil: // malformed on purpose
			out = wire.AppendMessage(out, m.Type, m.Body)
		case m.Type == wire.MsgQuery:
			out = wire.AppendMessage(out, m.Type, []byte(toSQL(text)+"\x00"+string(r.b)))
		case m.Type == wire.MsgParse:
			out = wire.AppendParse(out, name, toSQL(text)+"\x00"+string(r.b))
		default:
			out = wire.AppendMessage(out, m.Type, m.Body)
		}
	}
	return append(out, rest...)
}

// comparable describes what a server said by what the fake promises to get
// right: everything but the content of rows of filler, positions in the source
// and the wording of syntax errors.
func comparable(b []byte) []string {
	msgs, rest := Messages(b)
	var out []string
	for _, m := range msgs {
		r := &reader{b: m.Body}
		line := fmt.Sprintf("%c %q", m.Type, m.Body)
		switch m.Type {
		case wire.MsgErrorResponse, wire.MsgNoticeResponse:
			code := ErrorField(m.Body, 'C')
			line = fmt.Sprintf("%c %s %s", m.Type, ErrorField(m.Body, 'V'), code)
			if code != "42601" {
				line += " " + ErrorField(m.Body, 'M')
			}
		case wire.MsgDataRow:
			line = "D"
			for range r.int16() {
				line += " " + content(r.value())
			}
		case wire.MsgCopyData:
			line = "d " + content(m.Body)
		}
		out = append(out, line)
	}
	if len(rest) > 0 {
		out = append(out, fmt.Sprintf("rest of %d bytes", len(rest)))
	}
	return out
}

// content quotes a value; filler is reduced to its length.
func content(v []byte) string {
	if v == nil {
		return "NULL"
	}
	letters := strings.Trim(string(v), "abcdefghijklmnopqrstuvwxyz\n") == ""
	if letters {
		return fmt.Sprintf("%d bytes", len(v))
	}
	return fmt.Sprintf("%q", v)
}
