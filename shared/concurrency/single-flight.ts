/** Many callers that want the same value, and few fetches. */
type SingleFlight<Wanted, Value> = {
  /** Shares a fetch in progress; its result may be older than this call. */
  join(wanted: Wanted): Promise<Value>;
  /** Shares the next fetch that starts; its result is never older than this call. */
  joinNext(wanted: Wanted): Promise<Value>;
};

type Flight<Value> = { current: Promise<Value>; next?: Promise<Value> };

/**
 * Makes at most one fetch of the same value at a time. All callers that share a fetch get its failure, and so do those that wait for the
 * next fetch: they have already waited as long as a fetch takes, and are not made to wait for a retry.
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

/** Returns a function that makes a value from an object once, and remembers it for as long as that object is used. */
export function oncePerObject<Source extends object, Value>(
  make: (source: Source) => Value,
): (source: Source) => Value {
  const made = new WeakMap<Source, { value: Value }>();
  return function makeOnce(source) {
    const known = made.get(source) ?? { value: make(source) };
    made.set(source, known);
    return known.value;
  };
}
