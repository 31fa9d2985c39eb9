#!lua
-- Does nothing. Redis runs it only while it accepts writes: not while it is out of memory, a replica, or cannot save to its disk.
-- keys     of the node that is asked; none on a connection to that node
-- returns  1
return 1
