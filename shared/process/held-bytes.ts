/** Where bytes come from. It can be paused, like a request of Node. */
export type Source = { pause(): unknown; resume(): unknown };

/**
 * The source of one that has left. The engine's old tables of a set keep deleted entries until a full collection, and with them all that
 * a request has allocated: without this, each collection of young objects copied it.
 */
const gone: Source = { pause() {}, resume() {} };

type Holder = { account: string; bytes: number; arrivedBytes: number; count: number; arriving: Set<unknown> };

/** The bytes of one source. `More`: what its budget keeps with them. */
export type HeldSource<More> = More & {
  source: Source;
  holder: Holder;
  bytes: number;
  hasArrived: boolean;
  hasLeft: boolean;
};

export type HeldBytes<More> = ReturnType<typeof createHeldBytes<More>>;

/**
 * Counts the bytes of the sources that this process holds, in total and by account. Keeps the sources that arrive in order: the oldest may
 * continue past the bound while those that have arrived, and are still held, are below it. So the bound is exceeded by one source.
 */
export function createHeldBytes<More>(bytesMax: number) {
  const holders = createHolders(bytesMax / 4);
  const arriving = new Set<HeldSource<More>>();
  let bytesHeld = 0;
  let arrivedBytes = 0;

  function addArrived({ holder }: HeldSource<More>, bytes: number): void {
    holder.arrivedBytes += bytes;
    arrivedBytes += bytes;
  }

  function arrived(held: HeldSource<More>): void {
    if (held.hasArrived) return;
    held.hasArrived = true;
    arriving.delete(held);
    held.holder.arriving.delete(held);
    addArrived(held, held.bytes);
  }

  /** The oldest source whose account has room for it. It may continue past the bound. */
  function oldest(): HeldSource<More> | undefined {
    if (arrivedBytes >= bytesMax) return undefined;
    for (const held of arriving) if (holders.haveRoomFor(held)) return held;
    return undefined;
  }

  return {
    /** The sources of which more may arrive, in the order in which they began. */
    arriving: arriving as ReadonlySet<HeldSource<More>>,
    oldest,
    bytes: () => bytesHeld,
    isFull: (moreBytes = 0) => bytesHeld + moreBytes >= bytesMax,
    /** Whether the account of this source holds its part. */
    isAccountFull: ({ holder }: HeldSource<More>) => holders.isFull(holder),
    begin(account: string, source: Source, more: More): HeldSource<More> {
      const holder = holders.enter(account);
      const held: HeldSource<More> = { ...more, source, holder, bytes: 0, hasArrived: false, hasLeft: false };
      arriving.add(held);
      holder.arriving.add(held);
      return held;
    },
    /** Also takes bytes away, if they are fewer than none. */
    add(held: HeldSource<More>, bytes: number): void {
      held.bytes += bytes;
      held.holder.bytes += bytes;
      bytesHeld += bytes;
      if (held.hasArrived) addArrived(held, bytes);
    },
    /** Whether more of this source may arrive after this many further bytes. */
    mayContinue: (held: HeldSource<More>, moreBytes = 0) =>
      holders.haveRoomFor(held, moreBytes) && (bytesHeld + moreBytes < bytesMax || oldest() === held),
    arrived,
    leave(held: HeldSource<More>): void {
      arrived(held);
      held.hasLeft = true;
      held.source = gone;
      held.holder.bytes -= held.bytes;
      bytesHeld -= held.bytes;
      addArrived(held, -held.bytes);
      holders.leave(held.holder);
    },
  };
}

/** The accounts that hold sources, and their parts. */
function createHolders(accountBytesMax: number) {
  const holders = new Map<string, Holder>();
  return {
    enter(account: string): Holder {
      const holder = holders.get(account) ?? { account, bytes: 0, arrivedBytes: 0, count: 0, arriving: new Set() };
      holders.set(account, holder);
      holder.count += 1;
      return holder;
    },
    leave(holder: Holder): void {
      holder.count -= 1;
      if (holder.count === 0) holders.delete(holder.account);
    },
    isFull: ({ bytes }: Holder) => bytes >= accountBytesMax,
    haveRoomFor(held: { holder: Holder }, moreBytes = 0): boolean {
      const { bytes, arrivedBytes, arriving } = held.holder;
      if (bytes + moreBytes < accountBytesMax) return true;
      return firstOf(arriving) === held && arrivedBytes < accountBytesMax;
    },
  };
}

function firstOf(items: ReadonlySet<unknown>): unknown {
  const [first] = items;
  return first;
}

/** The most bytes that a source delivers at once: Node reads this much from a connection. */
export const pieceBytes = 65_536;

/** Pauses the sources of bodies, and resumes them when there is room. */
export function createPausedSources<More>({
  held,
  onResume = () => {},
}: {
  held: HeldBytes<More>;
  /** Called before a source is resumed. */
  onResume?: (body: HeldSource<More>) => void;
}) {
  const paused = new Set<HeldSource<More>>();

  function resume(body: HeldSource<More>): void {
    if (!paused.delete(body)) return;
    onResume(body);
    body.source.resume();
  }

  return {
    has: (body: HeldSource<More>) => paused.has(body),
    count: () => paused.size,
    remove: (body: HeldSource<More>) => paused.delete(body),
    /** False if it is paused already. */
    pause(body: HeldSource<More>): boolean {
      if (paused.has(body)) return false;
      body.source.pause();
      paused.add(body);
      return true;
    },
    /** Resumes the oldest body, and only as many others as there is room for the next piece of each. */
    resumeWhatFits(): void {
      const oldest = held.oldest();
      if (oldest !== undefined) resume(oldest);
      let expectedBytes = 0;
      for (const body of paused) {
        if (held.isFull(expectedBytes)) return;
        if (!held.mayContinue(body)) continue;
        resume(body);
        expectedBytes += pieceBytes;
      }
    },
  };
}
