//! F: order keys, registers, fold and diff (DESIGN §3). Pure: no clock, I/O, randomness, environment or logging.
