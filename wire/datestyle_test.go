package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a packet names counts more than its options, whatever comes first; of a DateStyle what
// the last value leaves open stays as an earlier one has it.
func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		options string
		named   []Param
		want    []Param
	}{
		{"", nil, nil},
		{"-c a=1", []Param{{"a", "2"}}, []Param{{"a", "1"}, {"a", "2"}}},
		{"", []Param{{"DateStyle", "iso"}}, []Param{{"DateStyle", "iso"}}},
		{"-c DateStyle=German", []Param{{"DateStyle", "ISO"}}, []Param{{"DateStyle", "German"}, {"DateStyle", "ISO, DMY"}}},
		{"-c datestyle=german", []Param{{"DATESTYLE", "ymd"}}, []Param{{"datestyle", "german"}, {"DATESTYLE", "German, YMD"}}},
		{"-c DateStyle=SQL,YMD -c DateStyle=German", nil, []Param{{"DateStyle", "SQL,YMD"}, {"DateStyle", "German, DMY"}}},
		{"-e", []Param{{"DateStyle", "SQL"}}, []Param{{"datestyle", "euro"}, {"DateStyle", "SQL, DMY"}}},
		{"-c DateStyle=ISO", []Param{{"DateStyle", " PostgreSQL "}}, []Param{{"DateStyle", "ISO"}, {"DateStyle", "Postgres"}}},
		{"-c DateStyle=US", []Param{{"DateStyle", "Euro"}}, []Param{{"DateStyle", "US"}, {"DateStyle", "DMY"}}},
		{"-c DateStyle=ISO", []Param{{"DateStyle", "ISO, SQL"}}, []Param{{"DateStyle", "ISO"}, {"DateStyle", "ISO, SQL"}}},
		{"-c DateStyle=SQL", []Param{{"DateStyle", "MDY, DMY"}}, []Param{{"DateStyle", "SQL"}, {"DateStyle", "MDY, DMY"}}},
		{"-c DateStyle=SQL", []Param{{"DateStyle", "default"}}, []Param{{"DateStyle", "SQL"}, {"DateStyle", "default"}}},
	} {
		s := Startup{Params: append([]Param{{"user", "u"}, {"replication", "false"}}, tc.named...)}
		if tc.options != "" {
			s.Params = append(s.Params, Param{"options", tc.options})
		}
		got, err := s.Settings()
		if d := cmp.Diff(tc.want, got); err != nil || d != "" {
			t.Errorf("%q %v: %v, %s", tc.options, tc.named, err, d)
		}
	}
	s := Startup{Params: []Param{{"options", "-Z"}}}
	if _, err := s.Settings(); err == nil {
		t.Error("wrong options are taken")
	}
}
