#!lua flags=allow-oom
-- Appends one entry to a reply stream, also when Redis is out of memory: the stream is bounded, and without its reply a client would
-- wait until the deadline.
-- args     lengthMax: the approximate max number of entries in the stream; fields: those of the entry and their values, alternating
-- returns  the entry's id, or nil if the stream is gone
return redis.call('XADD', stream, 'NOMKSTREAM', 'MAXLEN', '~', lengthMax, '*', unpack(fields))
