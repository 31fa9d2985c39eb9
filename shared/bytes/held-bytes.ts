/** Where bytes come from. It can be paused, like a request of Node. */
export type Source = { pause(): unknown; resume(): unknown };

/**
 * The source of a body that has left. The engine's old tables of a set keep deleted entries until a full collection, and with them all that
 * a request has allocated: without this, each collection of young objects copied it.
 */
const gone: Source = { pause() {}, resume() {} };

type Holder = { account: string; bytes: number; arrivedBytes: number; bodies: number; arriving: Set<unknown> };

/** The bytes of one body. `More`: what its budget keeps with them. */
export type HeldSource<More> = More & {
  source: Source;
  holder: Holder;
  bytes: number;
  hasArrived: boolean;
  hasLeft: boolean;
};

export type HeldBytes<More> = ReturnType<typeof createHeldBytes<More>>;

/**
 * Counts the bytes of the bodies that this process holds, in total and by account. Keeps the bodies that arrive in order: the oldest may
 * continue past the bound while those that have arrived, and are still held, are below it. So the bound is exceeded by one body.
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

  function arrived(body: HeldSource<More>): void {
    if (body.hasArrived) return;
    body.hasArrived = true;
    arriving.delete(body);
    body.holder.arriving.delete(body);
    addArrived(body, body.bytes);
  }

  /** The oldest body whose account has room for it. It may continue past the bound. */
  function oldest(): HeldSource<More> | undefined {
    if (arrivedBytes >= bytesMax) return undefined;
    for (const body of arriving) if (holders.haveRoomFor(body)) return body;
    return undefined;
  }

  return {
    /** The bodies of which more may arrive, in the order in which they began. */
    arriving: arriving as ReadonlySet<HeldSource<More>>,
    oldest,
    bytes: () => bytesHeld,
    isFull: (moreBytes = 0) => bytesHeld + moreBytes >= bytesMax,
    /** Whether the account of this body holds its part. */
    isAccountFull: ({ holder }: HeldSource<More>) => holders.isFull(holder),
    begin(account: string, source: Source, more: More): HeldSource<More> {
      const holder = holders.enter(account);
      const body: HeldSource<More> = { ...more, source, holder, bytes: 0, hasArrived: false, hasLeft: false };
      arriving.add(body);
      holder.arriving.add(body);
      return body;
    },
    /** Also takes bytes away, if they are fewer than none. */
    add(body: HeldSource<More>, bytes: number): void {
      body.bytes += bytes;
      body.holder.bytes += bytes;
      bytesHeld += bytes;
      if (body.hasArrived) addArrived(body, bytes);
    },
    /** Whether more of this body may arrive after this many further bytes. */
    mayContinue: (body: HeldSource<More>, moreBytes = 0) =>
      holders.haveRoomFor(body, moreBytes) && (bytesHeld + moreBytes < bytesMax || oldest() === body),
    arrived,
    leave(body: HeldSource<More>): void {
      arrived(body);
      body.hasLeft = true;
      body.source = gone;
      body.holder.bytes -= body.bytes;
      bytesHeld -= body.bytes;
      addArrived(body, -body.bytes);
      holders.leave(body.holder);
    },
  };
}

/** The accounts that hold bodies, and their parts. */
function createHolders(accountBytesMax: number) {
  const holders = new Map<string, Holder>();
  return {
    enter(account: string): Holder {
      const holder = holders.get(account) ?? { account, bytes: 0, arrivedBytes: 0, bodies: 0, arriving: new Set() };
      holders.set(account, holder);
      holder.bodies += 1;
      return holder;
    },
    leave(holder: Holder): void {
      holder.bodies -= 1;
      if (holder.bodies === 0) holders.delete(holder.account);
    },
    isFull: ({ bytes }: Holder) => bytes >= accountBytesMax,
    haveRoomFor(body: { holder: Holder }, moreBytes = 0): boolean {
      const { bytes, arrivedBytes, arriving } = body.holder;
      if (bytes + moreBytes < accountBytesMax) return true;
      return firstOf(arriving) === body && arrivedBytes < accountBytesMax;
    },
  };
}

function firstOf(items: ReadonlySet<unknown>): unknown {
  const [first] = items;
  return first;
}
