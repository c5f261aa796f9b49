package values

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"200ms": 200 * time.Millisecond, "5s": 5 * time.Second, "1h30m": 90 * time.Minute,
		"1.5s": 1500 * time.Millisecond, "2min": 2 * time.Minute, "7d": 7 * 24 * time.Hour,
		"10us": 10 * time.Microsecond, "0s": 0, "none": time.Duration(None), "365d": time.Duration(longest),
	} {
		if got, err := ParseDuration(text); err != nil || time.Duration(got) != want {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "s", "5 s", " 5s", "5s ", "-5s", "5x", "5S", "1..5s", ".s", "366d", "1e3s", "NaNs", "5s5", "None", "auto"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestDurationsAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Range(-1, int64(longest)).Draw(t, "nanoseconds"))
		if got, err := ParseDuration(d.String()); err != nil || got != d {
			t.Fatalf("%d is written %q and read as %d, %v", d, d, got, err)
		}
	})
}

func TestNoneIsNoTime(t *testing.T) {
	if !None.IsNone() || None.Std() != 0 || None.String() != "none" {
		t.Error(None.IsNone(), None.Std(), None.String())
	}
	if d := Duration(time.Second); d.IsNone() || d.Std() != time.Second {
		t.Error(d.IsNone(), d.Std())
	}
	if Auto.String() != "auto" || !Auto.IsAuto() || Count(0).IsAuto() || Count(5).String() != "5" {
		t.Error("Auto")
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{"0B": 0, "1500B": 1500, "64KiB": 64 << 10, "1MiB": 1 << 20, "4GiB": 4 << 30} {
		got, err := ParseSize(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "B", "KiB", "-1B", "+1B", "1 B", "1KB", "1kib", "1.5MiB", "99999999999GiB", "0x1B"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]Share{"0%": 0, "30%": 3000, "12.5%": 1250, "0.01%": 1, "100%": 10000} {
		got, err := ParseShare(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "%", "30", "101%", "100.01%", "-1%", "1.%", ".5%", "1.234%", "1 %", "99999999%"} {
		if got, err := ParseShare(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
	if got := Share(3000).Of(64); got != 19 {
		t.Errorf("30%% of 64 is %d", got)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"listen", "max_logins", "max_wait", "budget"}
	for word, want := range map[string]string{
		"budgte": "budget", "max-wait": "max_wait", "listne": "listen", "maxlogins": "max_logins",
		"something": "", "": "", strings.Repeat("x", 1000): "",
	} {
		if got := Nearest(word, words); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
