package sqltext

import "testing"

func TestTrailing(t *testing.T) {
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
		if got := Trailing(text); got != len(c.keep) {
			t.Errorf("Trailing(%q) = %d, want %d: %q", text, got, len(c.keep), text[:got])
		}
	}
}
