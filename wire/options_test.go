package wire

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitOptions(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want []Param
	}{
		{"", nil},
		{" \t\r\n\v\f ", nil},
		{"-c a=b", []Param{{"a", "b"}}},
		{"-ca=b", []Param{{"a", "b"}}},
		{"  -c   a=b  ", []Param{{"a", "b"}}},
		{"--a=b", []Param{{"a", "b"}}},
		{"--statement-timeout=1s", []Param{{"statement_timeout", "1s"}}},
		{"-c statement-timeout=-1", []Param{{"statement_timeout", "-1"}}},
		{`-c search_path=a,\ b`, []Param{{"search_path", "a, b"}}},
		{`-c a=x\\y`, []Param{{"a", `x\y`}}},
		{`-c a=x\y`, []Param{{"a", "xy"}}},
		{`-c a=x\`, []Param{{"a", "x"}}},
		{`-c a=\ `, []Param{{"a", " "}}},
		{"-c a==b=c", []Param{{"a", "=b=c"}}},
		{"-c a=", []Param{{"a", ""}}},
		{"-c a=b --", []Param{{"a", "b"}}},
		{"-c =b", []Param{{"", "b"}}},
		{"-c a=1 --b=2 -c a=3", []Param{{"a", "1"}, {"b", "2"}, {"a", "3"}}},
		{"-c --a=b", []Param{{"__a", "b"}}},
		{"-e", []Param{{"datestyle", "euro"}}},
		{"-es -S 64", []Param{{"datestyle", "euro"}, {"log_statement_stats", "true"}, {"work_mem", "64"}}},
		{"-eca=b", []Param{{"datestyle", "euro"}, {"a", "b"}}},
		{"-fs -f i -fhash", []Param{{"enable_seqscan", "false"}, {"enable_indexscan", "false"}, {"enable_hashjoin", "false"}}},
		{"-tpa -t pl -te", []Param{{"log_parser_stats", "true"}, {"log_planner_stats", "true"}, {"log_executor_stats", "true"}}},
	} {
		got, err := SplitOptions(tc.in)
		if err != nil {
			t.Errorf("%q: %v", tc.in, err)
			continue
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%q: %s", tc.in, d)
		}
	}
}

func TestSplitOptionsRefuses(t *testing.T) {
	const bad = "invalid command-line argument for server process: "
	for _, tc := range []struct{ in, message string }{
		{"a=b", bad + "a=b"},
		{"-c a=b c", bad + "c"},
		{"-", bad + "-"},
		{"-- -c a=b", bad + "--"},
		{"-c", bad + "-c"},
		{"-x", bad + "-x"},
		{"-D /tmp", bad + "-D"},
		{"-f", bad + "-f"},
		{"-f x", bad + "-f x"},
		{"-tp", bad + "-t p"},
		{"-c a", "-c a requires a value"},
		{"--a-b", "--a_b requires a value"},
	} {
		ps, err := SplitOptions(tc.in)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v, %v", tc.in, ps, err)
			continue
		}
		if e.Message != tc.message || e.Code != "42601" || e.Severity != "FATAL" {
			t.Errorf("%q: %v", tc.in, e)
		}
	}
}
