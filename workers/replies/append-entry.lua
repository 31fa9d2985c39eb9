#!lua flags=allow-oom
-- Appends one entry to a reply stream, also when Redis is out of memory: the stream is bounded, and without its reply a client would
-- wait until the deadline.
-- KEYS[1]   the reply stream
-- ARGV[1]   the approximate max number of entries in the stream
-- ARGV[2…]  the entry's fields and values, alternating
-- returns   the entry's id, or nil if the stream is gone
return redis.call('XADD', KEYS[1], 'NOMKSTREAM', 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, 2))
