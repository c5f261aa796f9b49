package sqltext

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// commentsOf returns the comments at the end of a text.
func commentsOf(text []byte) []byte { return text[len(text)-Classify(text).Comments():] }

// tagsOf writes what Tags reports, in its order.
func tagsOf(text string) string {
	var list []string
	for k, v := range Tags(commentsOf([]byte(text))) {
		list = append(list, fmt.Sprintf("%s=%s", k, v))
	}
	return strings.Join(list, " ")
}

func TestTags(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"SELECT 1", ""},
		{"SELECT 1 /**/", ""},
		{"SELECT 1 /*route='a'*/", ""},
		{"SELECT 1 /*pgweir.class='critical'*/", "pgweir.class=critical"},
		{"SELECT 1 /* pgweir.class = 'critical' , pgweir.tenant = 't1' */ ; ", "pgweir.class=critical pgweir.tenant=t1"},
		{"SELECT 1 /*pgweir.class=critical,pgweir.deadline_ms=250*/", "pgweir.class=critical pgweir.deadline_ms=250"},
		{"SELECT 1 /*pgweir%2Eclass='a%20b',pgweir.attempt='2'*/", "pgweir.class=a b pgweir.attempt=2"},
		{`SELECT 1 /*pgweir.tenant='it\'s',traceparent='00-1-2-01'*/`, "pgweir.tenant=it's traceparent=00-1-2-01"},
		{"SELECT 1 /*pgweir.tenant='100%',pgweir.class='%zz%4'*/", "pgweir.tenant=100% pgweir.class=%zz%4"},
		{"SELECT 1 /*a='x,pgweir.class=',pgweir.tenant='t'*/", "pgweir.tenant=t"},
		{"SELECT 1 /*junk,,=,pgweir.tenant='t'*/", "pgweir.tenant=t"},
		{"SELECT 1 /*pgweir.tenant='t',pgweir.class='open*/", "pgweir.tenant=t"},
		{"SELECT 1 /*pgweir.class=,pgweir.tenant='',traceparent*/", "pgweir.tenant="},
		{"SELECT 1 /*pgweir.class='a'*/ /*pgweir.class='b'*/", "pgweir.class=a pgweir.class=b"},
		{"SELECT 1 /*pgweir.class='a'*/ -- */\n/*pgweir.tenant='b'*/", "pgweir.class=a pgweir.tenant=b"},
		{"SELECT 1 -- pgweir.class='a' */", ""},
		{"/*pgweir.class='a'*/ SELECT 1", ""},
		{"SELECT '/*pgweir.class=''a''*/'", ""},
		{"SELECT '/*pgweir.class=a*/", ""},
		{"SELECT 1 /*+ pgweir.class='a' */", ""},
		{"SELECT 1 /*PGWEIR.CLASS='a'*/", ""},
		{"SELECT 1 /*pgweir.class='a',x='" + long + "',pgweir.tenant='t'*/", "pgweir.tenant=t"},
		{"SELECT 1 /*x=" + long + "*/", ""},
	} {
		if got := tagsOf(c.text); got != c.want {
			t.Errorf("Tags(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

func TestTagsEndWhenAsked(t *testing.T) {
	n := 0
	for range Tags(commentsOf([]byte("SELECT 1 /*pgweir.class='a',pgweir.tenant='b'*/ /*pgweir.attempt='1'*/"))) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d tags", n)
	}
}

// What a sqlcommenter writes is read as it was meant, behind any complete statement.
func TestWhatSqlcommenterWritesIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(t, "keys")[:rapid.IntRange(0, 5).Draw(t, "n")]
		var parts, want []string
		for _, k := range keys {
			v := rapid.StringN(0, 12, 24).Draw(t, "value")
			parts = append(parts, fmt.Sprintf("%s='%s'", TagKey(k), strings.ReplaceAll(url.PathEscape(v), "'", `\'`)))
			want = append(want, TagKey(k).String()+"="+v)
			if rapid.Bool().Draw(t, "other") {
				parts = append(parts, "route='%2Fpay%3Dx'")
			}
		}
		text := "SELECT * FROM t WHERE a = 'b' /*" + strings.Join(parts, ",") + "*/"
		if got := tagsOf(text); len(text) <= tagWindow && got != strings.Join(want, " ") {
			t.Fatalf("Tags(%q) = %q, want %q", text, got, want)
		}
	})
}

// Whatever the text, tags come from a comment at its end, and a value is no longer than that.
func FuzzTags(f *testing.F) {
	for _, s := range []string{
		"SELECT 1 /*pgweir.class='a'*/", "/*pgweir%2eclass=%41\\'*/;", "/*/*pgweir.class='*/*/", "a--\n/*traceparent=x*/", "'\\' /*pgweir.attempt=1*/",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for k, v := range Tags(commentsOf(text)) {
			if int(k) >= TagKeys || len(v) > tagWindow {
				t.Fatalf("%v=%q", k, v)
			}
		}
		// Classify finds them on its way, as who looks for nothing else does.
		got, start := Classify(text).Comments(), trailing(text)
		closed := !bytes.ContainsRune(text, '(') && !bytes.Contains(bytes.ToLower(text), []byte("atomic"))
		if got > 0 && got != len(text)-start || got == 0 && start >= 0 && blockEnds(text) && closed {
			t.Fatalf("%d bytes of comments, they start at %d of %d", got, start, len(text))
		}
	})
}

func TestTagsOfUntaggedTextsDoNotAllocate(t *testing.T) {
	for _, text := range []string{pgbenchSelect, "SELECT 1 /*route='a',pgweir.class='critical'*/"} {
		b := []byte(text)
		sum := 0
		if n := testing.AllocsPerRun(100, func() {
			for _, v := range Tags(commentsOf(b)) {
				sum += len(v)
			}
		}); n != 0 {
			t.Errorf("%v allocations for %q", n, text)
		}
	}
}

func BenchmarkTags(b *testing.B) {
	for _, bm := range []struct{ name, text string }{
		{"none", pgbenchSelect},
		{"tagged", pgbenchSelect + " /*pgweir.class='critical',pgweir.tenant='t1',traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/"},
	} {
		text := []byte(bm.text)
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for k, v := range Tags(commentsOf(text)) {
					_, _ = k, v
				}
			}
		})
	}
}
