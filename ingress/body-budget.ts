/** A body that arrives: it can be made to wait. A request of Node's is one. */
type Source = { pause(): unknown; resume(): unknown };

/** One body's part of the budget. */
export interface BodyShare {
  /** Counts bytes that have arrived. The source is paused while there is no room for more. */
  add(bytes: number): void;
  /** All of the body is there, or it has failed: another one may go on. Its bytes stay counted. */
  arrived(): void;
  /** Its bytes are no longer held. Idempotent. */
  leave(): void;
  hasLeft(): boolean;
  /** Whether the source was paused at any time. */
  hadToWait(): boolean;
}

export interface BodyBudget {
  /** The share of a body that begins; `holder` is who sends it. Undefined if the budget is used up. */
  enter(holder: string, source: Source): BodyShare | undefined;
  bytesHeld(): number;
}

type Holder = { bytes: number; arriving: Set<Arrival> };
type Arrival = { source: Source; holder: Holder; hadToWait: boolean };

/** What a source gives at once, at most: Node reads so much of a connection. */
const pieceBytes = 65_536;

/**
 * Bounds the bodies that this process holds, from their first byte until they are queued or their request has ended. What counts is
 * what has arrived, not what was announced, so a client that announces much and sends little takes no room. If the budget is used
 * up, no new body begins, and of those that have begun only the oldest goes on; the others wait. So the bound is exceeded by one
 * body at most, and by the piece that each source had already read. One holder's bodies wait in the same way beyond a quarter of
 * the budget, so that one account cannot keep others out.
 */
export function createBodyBudget({ bytesMax }: { bytesMax: number }): BodyBudget {
  const holderBytesMax = bytesMax / 4;
  const holders = new Map<string, Holder>();
  /** In the order in which they began. */
  const arriving = new Set<Arrival>();
  const paused = new Set<Arrival>();
  let bytesHeld = 0;

  function mayGoOn(arrival: Arrival): boolean {
    const { holder } = arrival;
    const hasRoom = bytesHeld < bytesMax || isFirst(arriving, arrival);
    return hasRoom && (holder.bytes < holderBytesMax || isFirst(holder.arriving, arrival));
  }

  function pause(arrival: Arrival): void {
    arrival.source.pause();
    arrival.hadToWait = true;
    paused.add(arrival);
  }

  function resume(arrival: Arrival): void {
    if (paused.delete(arrival)) arrival.source.resume();
  }

  /** The oldest in any case, and of the others no more than there is room for the next piece of each. */
  function resumeWhatMay(): void {
    const [oldest] = arriving;
    if (oldest !== undefined) resume(oldest);
    let expected = bytesHeld;
    for (const arrival of paused) {
      if (expected >= bytesMax) return;
      if (!mayGoOn(arrival)) continue;
      resume(arrival);
      expected += pieceBytes;
    }
  }

  function holderOf(name: string): Holder {
    const holder = holders.get(name) ?? { bytes: 0, arriving: new Set() };
    holders.set(name, holder);
    return holder;
  }

  return {
    enter(name, source) {
      if (bytesHeld >= bytesMax) return undefined;
      const holder = holderOf(name);
      const arrival: Arrival = { source, holder, hadToWait: false };
      let held = 0;
      let left = false;
      arriving.add(arrival);
      holder.arriving.add(arrival);

      function arrived(): void {
        arriving.delete(arrival);
        holder.arriving.delete(arrival);
        paused.delete(arrival);
        resumeWhatMay();
      }

      return {
        add(bytes) {
          held += bytes;
          holder.bytes += bytes;
          bytesHeld += bytes;
          if (!mayGoOn(arrival)) pause(arrival);
        },
        arrived,
        leave() {
          if (left) return;
          left = true;
          holder.bytes -= held;
          bytesHeld -= held;
          arrived();
          if (holder.bytes === 0 && holder.arriving.size === 0) holders.delete(name);
        },
        hasLeft: () => left,
        hadToWait: () => arrival.hadToWait,
      };
    },
    bytesHeld: () => bytesHeld,
  };
}

function isFirst<Item>(items: ReadonlySet<Item>, item: Item): boolean {
  const [first] = items;
  return first === item;
}
