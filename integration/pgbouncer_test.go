package integration

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// behaviour is something that PgBouncer does, by its documentation or its tests, and what
// becomes of it here.
type behaviour struct {
	theirs string
	// tests show what pgweir does, by package and name, separated by commas; a name alone is of
	// this package. "" only where there is nothing to be shown.
	tests string
	// readme is a part of the README that says why it is not the same, or that there is no such
	// thing; "" = it is the same.
	readme string
}

// Packages whose tests are named below.
const (
	inConsole  = "cmd/internal/console "
	inLogin    = "cmd/internal/login "
	inSession  = "cmd/internal/session "
	inUpstream = "cmd/internal/upstream "
	inProxy    = "cmd/internal/proxy "
	inHostile  = "integration/hostile "
	inParity   = "integration/parity TestParity"
	inPool     = "pool "
)

// absent is where the README says that there is no such thing.
const absent = "### What there is not"

// behaviours are all of them, by area, in the order of PgBouncer's tests.
func behaviours() map[string][]behaviour {
	return map[string][]behaviour{
		"admin": {
			{"RELOAD of a wrong file is an error, and nothing changes", "TestReload", ""},
			{"all SHOW commands, with their columns", "TestConsoleShows, " + inConsole + "TestPgBouncerColumns", ""},
			{"SHOW USERS has the pool size of a user", "TestConsoleShows", "`SHOW USERS`, `DATABASES`: `pool_size` is that of one pool"},
			{"clients and servers have ids of their own", "TestConsoleShows", ""},
			{"a client is idle, waiting or active", "TestConsoleShows", ""},
			{"connect_time and request_time are always there", "TestEveryRowHasItsTimes", ""},
			{"KILL db closes its clients and servers, and others wait until RESUME", "TestControlOfClients", ""},
			{"KILL closes those of all databases", "TestKillOfEverything", ""},
			{"KILL of an unknown database is an error", "TestControlOfClients", ""},
			{"KILL_CLIENT closes one client; an unknown id, or none, is an error", "TestControlOfClients, TestKillOfEverything", ""},
			{"only administrators may change or end anything", "TestConsoleRights, " + inHostile + "TestCVE20266667", ""},
			{"the system user of the process comes by the Unix socket without a password", "TestConsoleRights", ""},
			{"errors of the console are 08P01", "TestControlOfClients, TestKillOfEverything", "| nearly every error is 08P01 |"},
			{"SHOW VERSION is the program's version", "TestConsoleShows", "`SHOW VERSION` says PgBouncer"},
			{"SHOW HELP is a NOTICE", inConsole + "TestGolden", "`SHOW HELP` is a NOTICE"},
			{"SHOW CONFIG has its settings", "TestConsoleShows", "`SHOW CONFIG` has its keys"},
			{"SHOW STATS counts transactions, queries, assignments, logins", "TestStatisticsCountAsPgBouncers", ""},
			{"SHOW STATS counts a BEGIN", "TestStatisticsCountAsPgBouncers", "a `BEGIN` is a query"},
			{"SHOW TOTALS counts the console's commands", "TestStatisticsCountAsPgBouncers", "have the console in them, as the database `pgbouncer`"},
			{"SHOW SERVERS has the name that clients use", "TestExporter", "`SHOW SERVERS`: `database` is the name that clients use"},
			{"SET changes a setting until the file says otherwise", "TestSetLeavesTheFileToReload, TestControlUnderLoad", ""},
			{"the console takes several commands at once", "TestConsoleCommandsInOneString", ""},
			{"exporters for monitoring", "TestExporter, " + inConsole + "TestExporter", ""},
			{"SHOW FDS", "TestConsoleShows", absent},
		},
		"auth": {
			{"a server's own words at a login", "TestDatabasesAreToldAfterTheLogin, " + inLogin + "TestWhatPostgresTells", ""},
			{"auth_query asks for roles that are not in the file", "TestAuthQuery", ""},
			{"an expired role does not come in by auth_query", "TestAuthQuery", ""},
			{"an unknown role is no such user", "TestAuthQuery, " + inLogin + "TestNoRoleIsGivenAway", "a role that `auth_query` does not know is \"no such user\""},
			{"auth_query and auth_dbname of a database", "TestAuthQuery", "`auth_query` may be another one for each database"},
			{"auth_query has no parameters of the client", "TestAuthQueryGivesNothingToTheClient", ""},
			{"what is wrong with auth_query is logged", "TestReloadsAndWordsOfPostgres", ""},
			{"the console's roles are found by auth_query", "TestConsoleRights", "asks nothing of Postgres, so it lets in when Postgres is down"},
			{"server passwords of the configuration, or of the auth_file", "TestDatabaseOfAnotherRole, TestAuthFileIsReadAgain", ""},
			{"servers by password, md5 and SCRAM", inLogin + "TestDialPostgres, TestLogin", ""},
			{"clients by password, md5 and SCRAM", "TestLogin, " + inLogin + "TestAuthenticate", ""},
			{"md5 with a SCRAM verifier is SCRAM", inLogin + "TestAuthenticate", ""},
			{"a md5 hash is no use to SCRAM", inLogin + "TestAuthenticate", ""},
			{"a verifier opens servers as long as both have the same", inLogin + "TestPassThrough, TestPasswordRotationBehindClientKeys", ""},
			{"after a change of the server's password one login fails, and all who wait are told", "TestPasswordRotationBehindClientKeys, TestPasswordRotationOfAFile", ""},
			{"the auth_file is read again when it changes", "TestAuthFileIsReadAgain, " + inLogin + "TestBookFile", ""},
			{"cert, with a map", "TestCertificatesOfClients", ""},
			{"hba files, with cert and peer and maps", "TestHBA", ""},
			{"trust lets in who is in the auth_file", inLogin + "TestAuthenticate", "with `auth_type = trust` a role has to be in the `auth_file`"},
			{"any, ldap, pam", "", "`auth_type` any, LDAP, PAM."},
			{"an unknown role and a wrong password look the same", inLogin + "TestNoRoleIsGivenAway, " + inLogin + "TestStrangersLookLikeUsers", ""},
		},
		"cancel and copy": {
			{"a cancel ends the statement", inParity, ""},
			{"a client that waits can be cancelled", "TestPsqlCancelOfAWaitingStatement, TestPgxCancelOfAWaitingStatement", ""},
			{"cancels need no place of the pool", inHostile + "TestFloodOfCancels", ""},
			{"a late cancel does not meet somebody else", inSession + "TestManyCancels, TestOwners", ""},
			{"COPY in and out, simple, extended, prepared, and its errors", inParity, ""},
		},
		"limits": {
			{"max_client_conn", "TestControlOfClients, " + inProxy + "TestTooManyClients", ""},
			{"the console lets in when all places are taken", "TestConsoleRights", ""},
			{"clients of a user and of a database", "TestMaxClients", ""},
			{"who leaves makes room", "TestMaxClients, TestBooksBalance", ""},
			{"default_pool_size, pool_size", "TestSharesAndLoans, TestSharesUnderLoad", "`default_pool_size` per (database, user)"},
			{"min_pool_size", "TestMinPoolSize", ""},
			{"min_pool_size without any client", "TestMinPoolSize", "`min_pool_size` of a database with `user` counts from the start"},
			{"reserve_pool_size", "TestReserveUsers", "`reserve_pool_size` is for whoever has waited for long"},
			{"servers of a user and of a database", "TestMaxServerConnections", ""},
		},
		"hosts": {
			{"several hosts take turns", "TestFailover", "several hosts take turns, and all have to be there"},
			{"load_balance_hosts = disable stays with the host that works", inUpstream + "TestTheHostThatServedLastIsFirst", ""},
			{"a name with several addresses", inUpstream + "TestNamesHaveSeveralAddresses", ""},
			{"servers of an address that a name has no more are closed", inProxy + "TestServersFollowTheirName", ""},
		},
		"settings of clients": {
			{"parameters that servers report follow their client", "TestSettings, " + inParity, ""},
			{"-c and -- in options, with their escapes", inParity + ", TestStartupParametersThatPgBouncerRefuses", ""},
			{"an empty application_name", "TestStartupParametersThatPgBouncerRefuses", ""},
			{"a value that the server has already is not set again", inParity, ""},
			{"large startup packets", "TestStartupParametersThatPgBouncerRefuses, " + inHostile + "TestHostileOpenings", ""},
			{"other parameters are errors", "TestStartupParametersThatPgBouncerRefuses", "parameters of the startup packet that it does not track are errors"},
			{"connect_query, login_notify_message, application_name_add_host, disable_pqexec", "config/decode TestPgBouncersKeysAreKnown", absent},
		},
		"waiting and servers": {
			{"query_wait_timeout ends the session", "TestWaitingInVain, " + inSession + "TestCompatPgBouncer", "`query_wait_timeout` 120 s, closes the session"},
			{"a NOTICE after query_wait_notify", "config/decode TestPgBouncersKeysAreKnown", "there is no NOTICE"},
			{"server_check_query finds a dead server before a client does", "TestRestartOfPostgres, " + inSession + "TestServersThatEndAtOnce", "a server that has died is replaced before anything is sent to it"},
			{"server_reset_query cleans up after a session", "TestSettings, TestTracesOfHostileClients", "not needed: decided from the protocol"},
			{"server_fast_close, server_round_robin", "config/decode TestPgBouncersKeysAreKnown", absent},
			{"server_lifetime", "TestIdleClientsAndOldServersGo, " + inPool + "TestLifetimeIsSpread", ""},
			{"server_lifetime = 0", "", "`server_lifetime = 0` is a connection for one use"},
			{"server_idle_timeout", "TestMinPoolSize", ""},
			{"server_login_retry", "TestStartWithoutPostgres, " + inPool + "TestBackoff", "no other for `server_login_retry`"},
			{"server_connect_timeout", inUpstream + "TestTimeoutSaysSo", ""},
			{"tcp_user_timeout", "TestBlackHole", ""},
			{"query_timeout ends the connection", "TestCeilings", "`query_timeout` closes the connection, this keeps it"},
			{"query_timeout is not for the time between statements", "TestCeilings", ""},
			{"transaction_timeout, idle_transaction_timeout, of a user", "TestCeilings", ""},
			{"client_idle_timeout", "TestIdleClientsAndOldServersGo", ""},
			{"client_idle_timeout of a user", "", "`client_idle_timeout` by role"},
			{"client_login_timeout", inHostile + "TestSlowOpenings", ""},
			{"max_packet_size, pkt_buf: large messages pass", inParity, ""},
		},
		"databases": {
			{"an unknown database is told after the login", "TestDatabasesAreToldAfterTheLogin", ""},
			{"a database that Postgres has not, in Postgres's words", "TestDatabasesAreToldAfterTheLogin", ""},
			{"* stands for all others", inProxy + "TestPauseBeforeTheFirstClient, TestLogin", ""},
			{"a user of the database's own", "TestDatabaseOfAnotherRole", ""},
		},
		"operations": {
			{"PAUSE and RESUME", "TestControlUnderLoad", ""},
			{"PAUSE of everything twice is an error", "TestKillOfEverything", "`PAUSE` twice is an error"},
			{"a pause ends when clients of the mode session have left", "TestPauseWaitsForSessions", ""},
			{"clients of the mode session go on in a pause", "TestPauseWaitsForSessions", "who has a server in session mode goes on"},
			{"DISABLE and ENABLE", "TestControlOfClients", ""},
			{"RECONNECT and WAIT_CLOSE", "TestControlUnderLoad, TestPauseWaitsForSessions", ""},
			{"a restart of Postgres", "TestRestartOfPostgres", ""},
			{"a reload sends a database elsewhere", inProxy + "TestReloadDuringALogin, TestReload", "a reload that sends a database elsewhere"},
			{"SIGHUP, SIGUSR1, SIGUSR2", "TestHangup, TestPauseBySignal", ""},
			{"SIGTERM waits for clients", "TestShutdown, TestDrainDelay", "SIGTERM waits for all clients"},
			{"SIGINT waits for servers, a second one for nobody; SIGQUIT", "TestShutdown", ""},
			{"SHUTDOWN, WAIT_FOR_SERVERS, WAIT_FOR_CLIENTS", "TestShutdown", ""},
			{"who waits for a server is told of the end", "TestDrain, TestShutdown", ""},
			{"the console can be reached in a shutdown", "", "in a shutdown the console can be reached by the Unix socket"},
			{"SUSPEND, -R", "TestKillOfEverything", absent},
			{"so_reuseport, a rolling restart", "TestRollingRestart, cmd/pgweir TestSharedPort", ""},
			{"cancel requests find their process", "TestRollingRestart, cmd/internal/sibling TestOrdersBetweenProcesses", ""},
			{"peers on other machines", "", "`[peers]` may be on other machines"},
			{"unix_socket_mode, pidfile, logfile, %include", "config/decode TestPgBouncersKeysAreKnown", absent},
		},
		"prepared statements": {
			{"named statements over servers, in pipelines, with errors", inParity + ", TestDriversInSessionMode", ""},
			{"DEALLOCATE ALL, DISCARD ALL, Close", inParity, ""},
			{"large Parse and Bind", inParity, ""},
			{"the least recently used are closed on servers", inParity, ""},
			{"a name twice is an error, an unknown one, too", inParity, ""},
			{"parses and binds are counted", "TestStatisticsCountAsPgBouncers", ""},
			{"max_prepared_statements = 0", "", "`max_prepared_statements = 0` turns it off"},
			{"cached plan must not change result type", "TestPreparedStatementHealed", "is not told where the batch can be run again"},
		},
		"replication": {
			{"logical and physical, with settings and their programs", "TestReplication", ""},
			{"who may not is refused", "TestReloadsAndWordsOfPostgres", ""},
			{"it is bounded by the pool", "TestReplicationBudget, TestReplicationKeepsToTheConnectRate", "a replication connection takes the place of an idle one of its pool"},
			{"over TLS", "TestReplicationOverTLS", ""},
		},
		"TLS": {
			{"every sslmode towards servers", "TestServerTLS, " + inUpstream + "TestSSLModes", ""},
			{"a certificate of its own for servers", "TestServerClientCertificate", ""},
			{"every sslmode for clients", "TestEverySSLMode", ""},
			{"certificates of clients", "TestCertificatesOfClients", "A client certificate that is no good is refused in every mode"},
			{"new certificates after a reload", "TestCertificateRotation", ""},
			{"servers are opened anew when TLS settings change, and else not", "TestServerTLS, TestReloadsAndWordsOfPostgres", ""},
			{"direct TLS", "TestDirectTLS", ""},
			{"SCRAM and replication over TLS", "TestChannelBinding, TestReplicationOverTLS", ""},
			{"ciphers", "config/decode TestPgBouncersKeysAreKnown", absent},
		},
	}
}

// The list is complete as far as it goes: what is the same has a test, and what is not is in the
// README, with the reason.
func TestEveryBehaviourOfPgBouncerIsAnswered(t *testing.T) {
	names := make(map[string]bool)
	for _, s := range sources(t, token.NewFileSet(), root(t)) {
		for _, decl := range s.tree.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.isTest() {
				names[filepath.ToSlash(filepath.Dir(s.path))+" "+f.Name.Name] = true
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := strings.Join(strings.Fields(string(text)), " ")
	n := 0
	for area, list := range behaviours() {
		for _, b := range list {
			n++
			if b.tests == "" && b.readme == "" {
				t.Errorf("%s: %s: neither a test nor a word", area, b.theirs)
			}
			if b.readme != "" && !strings.Contains(readme, b.readme) {
				t.Errorf("%s: %s: the README does not say %q", area, b.theirs, b.readme)
			}
			for test := range strings.SplitSeq(b.tests, ", ") {
				if test != "" && !strings.Contains(test, " ") {
					test = "integration " + test
				}
				if test != "" && !names[test] {
					t.Errorf("%s: %s: there is no test %s", area, b.theirs, test)
				}
			}
		}
	}
	if want := "has " + strconv.Itoa(n) + " behaviours of PgBouncer"; !strings.Contains(readme, want) {
		t.Errorf("the README does not say %q", want)
	}
}
