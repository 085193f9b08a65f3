namespace mzcache {}
