package bench

import (
	"maps"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Target is whom a load is sent to.
type Target struct {
	Name   string // of the report
	URL    string // in libpq's form; also its keyword form
	Direct string // the same Postgres past the pooler, to be watched; empty: it is not
	// Roles are whose connections are counted there; none: all but those that watch.
	Roles []string
	// Counter is a sequence that the {count} of texts increments, and that is read there;
	// empty: nothing is counted.
	Counter string
	// Apart leaves out what the environment says in PG* variables: they are for other
	// databases. URL and Direct say it all.
	Apart bool
}

// configure is how the requests of a stream's tenant connect.
func (t Target) configure(s *Stream, tenant int) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(t.URL)
	if err != nil {
		return nil, err
	}
	if t.Apart {
		config.ValidateConnect, config.RuntimeParams = nil, nil
	}
	config.ConnectTimeout = connectBound
	// The key of a cancel request is the same in all versions then.
	config.MinProtocolVersion, config.MaxProtocolVersion = "3.0", "3.0"
	if s.User != "" {
		config.User, config.Password = s.User, s.Password
	}
	if s.Database != "" {
		config.Database = s.Database
	}
	params := maps.Clone(config.RuntimeParams)
	if params == nil {
		params = map[string]string{}
	}
	switch {
	case s.NameTenants:
		params["application_name"] = s.Tenants[tenant]
	case s.Application != "":
		params["application_name"] = s.Application
	case params["application_name"] == "":
		params["application_name"] = agent
	}
	if s.Tell == AtStartup {
		if o := s.told(tenant).options(); o != "" {
			params["options"] = join(params["options"], o)
		}
	}
	config.RuntimeParams = params
	if s.ReadRate > 0 {
		slowly(config, s.ReadRate)
	}
	return config, nil
}

// join puts a space between two words if both are there.
func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

// told is what the stream says of each of a tenant's requests.
func (s *Stream) told(tenant int) told {
	t := told{class: s.Class, attempt: 1}
	if len(s.Tenants) > 0 && !s.NameTenants {
		t.tenant = s.Tenants[tenant]
	}
	if s.Deadline {
		t.deadline = s.Patience
	}
	return t
}

// groups is how many groups of connections a stream needs, so that all of a group look the
// same to the endpoint.
func (s *Stream) groups() int {
	if s.NameTenants || (len(s.Tenants) > 0 && (s.Tell == AtStartup || s.Tell == BySet)) {
		return len(s.Tenants)
	}
	return 1
}

// Address is where a URL leads, without who and without secrets; a word for it if that
// can't be read.
func Address(url string) string {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return "postgres"
	}
	if strings.HasPrefix(config.Host, "/") {
		return config.Host
	}
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}
