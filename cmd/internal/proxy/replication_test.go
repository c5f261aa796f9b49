package proxy

import (
	"strings"
	"testing"

	"github.com/pgweir/pgweir/wire"
)

func TestReplicationOf(t *testing.T) {
	for kind, values := range map[replication]string{
		physical: "true t tr TRUE yes y YES on On 1", logical: "database",
		notReplication: "false f FALSE no n off of 0", "?": "Database maybe o 2 truer",
	} {
		for v := range strings.FieldsSeq(values) {
			got, err := replicationOf(&wire.Startup{Params: []wire.Param{{Name: "user", Value: "u"}, {Name: "replication", Value: v}}})
			if (err != nil) != (kind == "?") || err == nil && got != kind {
				t.Errorf("%s: %q, %v", v, got, err)
			}
		}
	}
	if got, err := replicationOf(&wire.Startup{Params: []wire.Param{{Name: "replication", Value: "on"}, {Name: "replication", Value: "0"}}}); got != notReplication || err != nil {
		t.Errorf("the last of two: %q, %v", got, err)
	}
}
