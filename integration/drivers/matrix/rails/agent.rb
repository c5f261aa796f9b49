# ActiveRecord, by its pool. See ../doc.go.
require 'active_record'
require_relative '../ruby/agent'

# Rails is ActiveRecord where it has its own means, and pg where it passes things on.
class Rails < Agent
  def initialize
    super
    @adapters = {}
  end

  def config(o)
    { adapter: 'postgresql', host: o['host'], port: o['port'], username: o['user'], password: o['password'], database: o['database'],
      sslmode: 'disable', pool: o['size'].to_i, prepared_statements: o['cache'] != 'none', min_messages: 'notice', checkout_timeout: 20,
      reaping_frequency: nil, variables: o['tz'] ? { timezone: o['tz'] } : {} }
  end

  # Each pool is that of a class of its own, as one whose servers have gone cannot be replaced.
  def do_pool(_, *args)
    begin
      @pool&.disconnect!
    rescue ActiveRecord::ActiveRecordError, PG::Error # it wanted to use its connections for that
      nil
    end
    @pools = (@pools || 0) + 1
    owner = Class.new(ActiveRecord::Base) { self.abstract_class = true }
    Object.const_set("Owner#{@pools}", owner)
    owner.establish_connection(config(options(args)))
    @pool = owner.connection_pool
    []
  end

  def do_connect(n, *args)
    o = options(args)
    return [['no']] if o['enc'] # it speaks UTF8 only

    @alone[n] = true
    have(n, ActiveRecord::Base.postgresql_connection(config(o)))
  end

  def have(n, adapter)
    @adapters[n] = adapter
    @conns[n] = adapter.raw_connection
    []
  end

  # The pool asks each time whether the connection lives, and connects again if not.
  def do_open(n)
    have(n, @pool.checkout)
  end

  def do_close(n)
    @conns.delete(n)
    adapter = @adapters.delete(n)
    return [] unless adapter

    if @alone.delete(n)
      adapter.disconnect!
    else
      @pool.checkin(adapter)
    end
    []
  end

  # Statements with parameters are prepared and kept by name.
  def do_query(n, sql, *args)
    binds = args.map { |arg| ActiveRecord::Relation::QueryAttribute.new('', arg, ActiveRecord::Type::String.new) }
    @adapters[n].exec_query(sql, 'SQL', binds, prepare: !binds.empty?).rows.map { |row| ['row', *row] } + [['end']]
  end

  def do_begin(n, level = nil)
    @adapters[n].begin_transaction(isolation: level&.to_sym, _lazy: false)
    []
  end

  def do_commit(n)
    @adapters[n].commit_transaction
    []
  end

  def do_rollback(n)
    @adapters[n].rollback_transaction
    []
  end

  def do_savepoint(n, _)
    do_begin(n)
  end

  def do_rollbackto(n, _)
    do_rollback(n)
    do_begin(n) # its own has gone with the rollback
  end

  def do_release(n, _)
    do_commit(n)
  end

  def do_ping(n)
    @adapters[n].active? ? do_query(n, 'select 1') : [['error', '', 'active? says no', '', '']]
  end
end

serve(Rails.new)
