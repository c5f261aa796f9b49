<?php
// PDO's driver pgsql: one connection a process, kept in PDO's own place for persistent ones. See ../doc.go.

$pdo = null;
$pool = [];
$prepared = [];

function encode($v) {
    return $v === null ? '\N' : strtr((string)$v, ["\\" => "\\\\", "\t" => "\\t", "\n" => "\\n", "\r" => "\\r"]);
}

function decode($s) {
    return $s === '\N' ? null : strtr($s, ["\\\\" => "\\", "\\t" => "\t", "\\n" => "\n", "\\r" => "\r"]);
}

function options($args) {
    $o = [];
    foreach ($args as $arg) {
        [$key, $value] = explode('=', $arg, 2);
        $o[$key] = $value;
    }
    return $o;
}

function dial($o, $persistent) {
    $dsn = "pgsql:host={$o['host']};port={$o['port']};dbname={$o['database']};sslmode=disable";
    if (isset($o['tz'])) {
        $dsn .= ";options='-c TimeZone={$o['tz']}'";
    }
    if (isset($o['enc'])) {
        $dsn .= ";client_encoding={$o['enc']}";
    }
    return new PDO($dsn, $o['user'], $o['password'], [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => false, PDO::ATTR_PERSISTENT => $persistent,
        PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_NUM,
    ]);
}

// cell makes a text of what PDO has made of a value.
function cell($v) {
    if (is_resource($v)) {
        return bin2hex(stream_get_contents($v));
    }
    return is_bool($v) ? ($v ? 't' : 'f') : $v;
}

function result($statement) {
    $lines = [];
    if ($statement->columnCount() > 0) {
        foreach ($statement->fetchAll() as $row) {
            $lines[] = array_merge(['row'], array_map('cell', $row));
        }
    }
    $lines[] = ['end', $statement->rowCount()];
    return $lines;
}

function query($sql, $args) {
    global $pdo;
    $statement = $pdo->prepare(preg_replace('/\$\d+/', '?', $sql));
    $statement->execute($args);
    return result($statement);
}

function failed($e) {
    $info = $e->errorInfo ?? null;
    $text = $info[2] ?? $e->getMessage();
    $code = $info[0] ?? '';
    if (preg_match('/large object \d+ does not exist/', $text)) {
        $code = '42704'; // PDO has a message only
    } elseif ($code === 'HY000' || strncmp($code, '08', 2) === 0) {
        $code = ''; // what PDO says when there is no connection
    }
    $part = fn($name) => preg_match("/^$name:\s+(.*)$/m", $text, $m) ? $m[1] : '';
    return ['error', $code, $code === '' ? $text : preg_replace('/^[A-Z]+:\s+/', '', strtok($text, "\n")), $part('DETAIL'), $part('HINT')];
}

function carry_out($verb, $args) {
    global $pdo, $pool, $prepared;
    switch ($verb) {
    case 'pool':
        $pdo = null;
        $pool = options($args);
        return [];
    case 'connect':
        $pdo = dial(options($args), false);
        return [];
    case 'open':
        $pdo = dial($pool, true); // PDO looks whether the one that it keeps lives
        return [];
    case 'close':
        $prepared = [];
        $pdo = null;
        return [];
    case 'query':
        return query($args[0], array_slice($args, 1));
    case 'long':
        return query($args[0], []);
    case 'exec':
        return [['end', $pdo->exec($args[0])]];
    case 'prepare':
        $prepared[$args[0]] = $pdo->prepare(preg_replace('/\$\d+/', '?', $args[1]));
        return [];
    case 'run':
        $prepared[$args[0]]->execute(array_slice($args, 1));
        return result($prepared[$args[0]]);
    case 'begin':
        $pdo->beginTransaction();
        if ($args) {
            $pdo->exec('set transaction isolation level ' . $args[0]);
        }
        return [];
    case 'commit':
        $pdo->commit();
        return [];
    case 'rollback':
        $pdo->rollBack();
        return [];
    case 'copyin':
        $table = explode(' ', $args[0])[1];
        $pdo->pgsqlCopyFromArray($table, explode("\n", rtrim($args[1], "\n")));
        return [['end', '']];
    case 'copyout':
        preg_match('/\((.*)\) to stdout/', $args[0], $m);
        $rows = $pdo->pgsqlCopyToArray("({$m[1]})");
        return array_map(fn($row) => ['row', rtrim($row, "\n")], $rows);
    case 'lowrite':
        $oid = $pdo->pgsqlLOBCreate();
        $stream = $pdo->pgsqlLOBOpen($oid, 'w');
        fwrite($stream, $args[0]);
        fclose($stream);
        return [['row', $oid]];
    case 'loread':
        $stream = @$pdo->pgsqlLOBOpen($args[0], 'r');
        if ($stream === false) {
            return [['error', '42704', 'PDO says false only', '', '']];
        }
        return [['row', stream_get_contents($stream)]];
    case 'types':
        $sql = 'select ?::int, ?::bool, ?::int, ?::bigint, ?::float8, ?::numeric, ?::text, ?::text, ?::bytea, ?::timestamptz, ?::date, ?::int[], ?::jsonb, ?::uuid';
        $statement = $pdo->prepare($sql);
        $all = fopen('php://memory', 'r+');
        fwrite($all, implode('', array_map('chr', range(0, 255))));
        rewind($all);
        $values = [null, true, -2147483648, '9223372036854775807', '1.5', '12345678901234567890.123456789', "é\t'\\", '', $all,
            '2024-02-29 12:34:56.789012+00', '0001-01-01', '{1,NULL,3}', '{"a": [1, null]}', '00000000-0000-0000-0000-000000000005'];
        $kinds = [0 => PDO::PARAM_NULL, 1 => PDO::PARAM_BOOL, 2 => PDO::PARAM_INT, 8 => PDO::PARAM_LOB];
        foreach ($values as $i => $value) {
            $statement->bindValue($i + 1, $value, $kinds[$i] ?? PDO::PARAM_STR);
        }
        $statement->execute();
        return result($statement);
    case 'ping':
        return query('select 1', []);
    }
    return [['no']];
}

while (($line = fgets(STDIN)) !== false) {
    $fields = explode("\t", rtrim($line, "\n"));
    $n = array_shift($fields);
    [$verb, $args] = [$fields[0], array_map('decode', array_slice($fields, 1))];
    try {
        $lines = carry_out($verb, $args);
    } catch (PDOException $e) {
        $lines = [failed($e)];
    } catch (Throwable $e) {
        $lines = [['error', '', (string)$e, '', '']];
    }
    $lines[] = ['done'];
    foreach ($lines as $fields) {
        echo $n, "\t", implode("\t", array_map('encode', $fields)), "\n";
    }
}
