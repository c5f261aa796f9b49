# Perl's DBD::Pg: one connection a process, kept as connect_cached does. See ../doc.go.
use strict;
use warnings;
use DBI;
use DBD::Pg qw(:async :pg_types);
use IO::Select;

$| = 1;
binmode STDIN;
binmode STDOUT;
my (%pool, %prepared, $dbh, @notices, $sth, $alone);
my @waiting; # commands that came while a statement ran
my %out = ("\\" => "\\\\", "\t" => "\\t", "\n" => "\\n", "\r" => "\\r");
my %back = ("\\" => "\\", t => "\t", n => "\n", r => "\r");

sub encode { my ($v) = @_; return '\N' unless defined $v; $v =~ s/([\\\t\n\r])/$out{$1}/g; return $v }
sub decode { my ($s) = @_; return undef if $s eq '\N'; $s =~ s/\\(.)/$back{$1}/g; return $s }
sub options { return map { split /=/, $_, 2 } @_ }

sub dial {
    my ($cached, %o) = @_;
    my $dsn = "dbi:Pg:host=$o{host};port=$o{port};dbname=$o{database};sslmode=disable";
    $dsn .= ";options='-c TimeZone=$o{tz}'" if $o{tz};
    local $ENV{PGCLIENTENCODING} = $o{enc} if $o{enc};
    my $method = $cached ? 'connect_cached' : 'connect';
    return DBI->$method($dsn, $o{user}, $o{password}, {
        RaiseError => 1, PrintError => 0, PrintWarn => 1, AutoCommit => 1, pg_enable_utf8 => 0, pg_server_prepare => 1, pg_switch_prepared => 1,
    });
}

sub failed {
    my ($h) = @_;
    my $code = $h ? $h->state : '';
    my $text = $h ? $h->errstr // '' : $@;
    my ($detail) = $text =~ /^DETAIL:\s+(.*)$/m;
    my ($hint) = $text =~ /^HINT:\s+(.*)$/m;
    my ($first) = $text =~ /^(?:[A-Z]+:\s+)?(.*)$/m;
    $code = '' if $code =~ /^(08|S1|22000$|00000)/; # DBI's own, or no connection
    return ['error', $code, $code ? $first : "$text $@", $detail // '', $hint // ''];
}

sub result {
    my ($s) = @_;
    my @lines;
    if ($s->{NUM_OF_FIELDS}) {
        push @lines, ['row', map { defined $_ ? "$_" : undef } @$_] for @{ $s->fetchall_arrayref };
    }
    return (@lines, ['end', $s->rows]);
}

sub query {
    my ($sql, @args) = @_;
    $sql =~ s/\$\d+/?/g;
    $sth = $dbh->prepare($sql);
    $sth->execute(@args);
    return result($sth);
}

my %verbs = (
    pool => sub { %pool = options(@_); $dbh->disconnect if $dbh; undef $dbh; return () },
    connect => sub { $dbh = dial(0, options(@_)); $alone = 1; return () },
    open => sub { $dbh = dial(1, %pool); $alone = 0; return () }, # it pings the one that it keeps
    close => sub { undef $sth; %prepared = (); $dbh->disconnect if $alone; return () },
    query => \&query,
    exec => sub { $sth = undef; my $n = $dbh->do($_[0]); return ['end', $n + 0] },
    prepare => sub { my ($name, $sql) = @_; $sql =~ s/\$\d+/?/g; $prepared{$name} = $dbh->prepare($sql, { pg_prepare_now => 1 }); return () },
    run => sub { my ($name, @args) = @_; $sth = $prepared{$name}; $sth->execute(@args); return result($sth) },
    begin => sub { $dbh->begin_work; $dbh->do("set transaction isolation level $_[0]") if $_[0]; return () },
    commit => sub { $dbh->commit; return () },
    rollback => sub { $dbh->rollback; return () },
    savepoint => sub { $dbh->pg_savepoint($_[0]); return () },
    rollbackto => sub { $dbh->pg_rollback_to($_[0]); return () },
    release => sub { $dbh->pg_release($_[0]); return () },
    copyin => sub {
        $dbh->do($_[0]);
        $dbh->pg_putcopydata($_[1]);
        $dbh->pg_putcopyend;
        return ['end', ''];
    },
    copyout => sub {
        $dbh->do($_[0]);
        my ($row, @lines) = ('');
        while ($dbh->pg_getcopydata($row) >= 0) { chomp $row; push @lines, ['row', $row] }
        return @lines;
    },
    lowrite => sub {
        my $oid = $dbh->pg_lo_creat($dbh->{pg_INV_WRITE});
        my $fd = $dbh->pg_lo_open($oid, $dbh->{pg_INV_WRITE});
        $dbh->pg_lo_write($fd, $_[0], length $_[0]);
        $dbh->pg_lo_close($fd);
        return ['row', $oid];
    },
    loread => sub {
        my $fd = $dbh->pg_lo_open($_[0], $dbh->{pg_INV_READ});
        return ['error', '42704', 'DBD::Pg says nothing', '', ''] unless defined $fd;
        my $text = '';
        my $n = $dbh->pg_lo_read($fd, $text, 1 << 20);
        $dbh->pg_lo_close($fd);
        return ['row', substr($text, 0, $n)];
    },
    long => sub {
        $sth = $dbh->prepare($_[0], { pg_async => PG_ASYNC });
        $sth->execute;
        my $in = IO::Select->new(\*STDIN);
        until ($dbh->pg_ready) {
            next unless $in->can_read(0.01);
            my ($line, $c) = ('');
            while (sysread(STDIN, $c, 1) && $c ne "\n") { $line .= $c }
            my ($n, $verb) = split /\t/, $line;
            $dbh->pg_cancel; # it takes the result, too
            print "$n\tdone\n";
            return failed($dbh) if $dbh->state ne '00000' && $dbh->state;
            return ['error', '57014', 'cancelled', '', ''];
        }
        $sth->pg_result;
        return result($sth);
    },
    notices => sub {
        my @seen;
        local $SIG{__WARN__} = sub { push @seen, map { ['notice', $_] } grep { /^(NOTICE|WARNING):/ } split /\n/, $_[0] };
        $dbh->do($_[0]);
        return @seen;
    },
    types => sub {
        my @values = (undef, 't', -2147483648, '9223372036854775807', '1.5', '12345678901234567890.123456789', "\xc3\xa9\t'\\", '',
            join('', map { chr } 0 .. 255), '2024-02-29 12:34:56.789012+00', '0001-01-01', [1, undef, 3], '{"a": [1, null]}',
            '00000000-0000-0000-0000-000000000005');
        $sth = $dbh->prepare('select ?::int, ?::bool, ?::int, ?::bigint, ?::float8, ?::numeric, ?::text, ?::text, ?::bytea, ?::timestamptz, ?::date, ?::int[], ?::jsonb, ?::uuid');
        for my $i (0 .. $#values) {
            $sth->bind_param($i + 1, $values[$i], $i == 8 ? { pg_type => PG_BYTEA } : undef);
        }
        $sth->execute;
        my $row = $sth->fetchrow_arrayref;
        my @cells = map { ref $_ ? join(',', map { $_ // 'null' } @$_) : $_ } @$row;
        $cells[8] = unpack 'H*', $cells[8];
        return ['row', @cells];
    },
    ping => sub { return $dbh->ping ? () : failed($dbh) },
);

sub carry_out {
    my ($verb, @args) = @_;
    my $do = $verbs{$verb} or return ['no'];
    my @lines = eval { $do->(@args) };
    return @lines unless $@;
    return failed($sth && $sth->err ? $sth : $dbh && $dbh->err ? $dbh : $DBI::lasth);
}

# Lines are read byte by byte, so that what a statement that is cancelled reads is not in a buffer.
while (1) {
    my $line = '';
    my $c;
    while (sysread(STDIN, $c, 1)) { last if $c eq "\n"; $line .= $c }
    last unless defined $c && $c eq "\n";
    my ($n, @fields) = split /\t/, $line, -1;
    my @lines = carry_out(map { decode($_) } @fields);
    print map { join("\t", $n, map { encode($_) } @$_) . "\n" } @lines, ['done'];
}
$dbh->disconnect if $dbh;
