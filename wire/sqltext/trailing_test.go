package sqltext

import "testing"

func TestCommentsAtTheEnd(t *testing.T) {
	for _, c := range []struct{ keep, tail string }{
		{"", ""},
		{"SELECT 1", ""},
		{"SELECT 1 ", "/*route='a'*/"},
		{"SELECT 1 ", "/*a*/ ; "},
		{"SELECT 1; ", "/*a*/"},
		{"SELECT 1 ", "/*a*/ /*b*/ -- c\n"},
		{"SELECT 1 ", "/*a*/; -- b"},
		{"SELECT 1 ", "-- a */"},
		{"SELECT 1", "-- a\r\n;"},
		{"SELECT 1 ", "/* a /* b */ */"},
		{"SELECT 1 /* a */ + 1 ", "/* b */"},
		{"SELECT 1 /* a */ + 1", ""},
		{"SELECT 1; /* a */ SELECT 2", ""},
		{"/* a */ SELECT 1", ""},
		{"SELECT '/* a */'", ""},
		{"SELECT '-- a'", ""},
		{"SELECT $$ -- a $$", ""},
		{"SELECT '/* ' ", "/* ' */"},
		{" ", "/* only */ "},
		{"SELECT 1 /*+ SeqScan(t) */", ""},
		{"SELECT 1 /* a */ /*+ SeqScan(t) */ ", "/* b */"},
		{"SELECT 1 ", "/* a *//*/**/*/"},
		{"SELECT 1 /* open", ""},
		{"SELECT 1 /* open /* */", ""},
		{"SELECT ' -- */", ""},
		{"SELECT 'a' || '\\' ", "/* a */"},
		{"SELECT '\\' ", "/* a', 1, '*/"},
		{"SELECT '\\', ' -- ' /* a \n ' */", ""},
		{"SELECT '\\' /* a', 1, '/* b */", ""},
		{"SELECT '\\', ' /* a */ /*' --*/", ""},
	} {
		text := []byte(c.keep + c.tail)
		want := len(c.tail)
		if !blockEnds(text) {
			want = 0
		}
		if got := Classify(text).Comments(); got != want {
			t.Errorf("%q: %d bytes of comments, want %d", text, got, want)
		}
		if got := trailing(text); got != len(c.keep) && (got >= 0 || c.tail != "") {
			t.Errorf("%q: comments from %d on, want %d", text, got, len(c.keep))
		}
	}
}
