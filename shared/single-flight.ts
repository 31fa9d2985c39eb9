/** Many who want the same thing, and few who fetch it. */
type SingleFlight<Wanted, Value> = {
  /** Shares a fetch that is under way; what it brings may be from a moment before this call. */
  join(wanted: Wanted): Promise<Value>;
  /** Shares the next fetch that begins: what it brings is no older than this call. */
  joinNext(wanted: Wanted): Promise<Value>;
};

type Flight<Value> = { current: Promise<Value>; next?: Promise<Value> };

/**
 * At most one fetch of the same thing at a time. A failure is that of everyone who shares it, and of those who wait for the
 * next: they have waited for as long as a fetch takes, and what has failed is not tried again on top of that.
 */
export function createSingleFlight<Wanted, Value>(parts: {
  nameOf: (wanted: Wanted) => string;
  fetch: (wanted: Wanted) => Promise<Value>;
}): SingleFlight<Wanted, Value> {
  const flights = new Map<string, Flight<Value>>();

  function start(wanted: Wanted): Promise<Value> {
    const name = parts.nameOf(wanted);
    const flight: Flight<Value> = { current: parts.fetch(wanted) };
    flights.set(name, flight);
    flight.current.then(
      () => flight.next === undefined && flights.delete(name),
      () => flights.delete(name),
    );
    return flight.current;
  }

  return {
    join: (wanted) => flights.get(parts.nameOf(wanted))?.current ?? start(wanted),
    joinNext(wanted) {
      const flight = flights.get(parts.nameOf(wanted));
      if (flight === undefined) return start(wanted);
      flight.next ??= flight.current.then(() => start(wanted));
      return flight.next;
    },
  };
}
