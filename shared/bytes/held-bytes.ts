/** Where bytes come from. It can be paused, like a request of Node. */
export type Source = { pause(): unknown; resume(): unknown };

type Holder = { account: string; bytes: number; arriving: Set<unknown> };

/** The bytes of one body. `More`: what its budget keeps with them. */
export type Held<More> = More & { source: Source; holder: Holder; bytes: number; hasLeft: boolean };

export type HeldBytes<More> = ReturnType<typeof createHeldBytes<More>>;

/** Counts the bytes of the bodies that this process holds, in total and by account. Keeps the bodies that arrive in order. */
export function createHeldBytes<More>(bytesMax: number) {
  const accountBytesMax = bytesMax / 4;
  const holders = new Map<string, Holder>();
  const arriving = new Set<Held<More>>();
  let bytesHeld = 0;

  function holderOf(account: string): Holder {
    const holder = holders.get(account) ?? { account, bytes: 0, arriving: new Set() };
    holders.set(account, holder);
    return holder;
  }

  function arrived(body: Held<More>): void {
    arriving.delete(body);
    body.holder.arriving.delete(body);
  }

  return {
    /** The bodies of which more may arrive, in the order in which they began. */
    arriving: arriving as ReadonlySet<Held<More>>,
    bytes: () => bytesHeld,
    isFull: (moreBytes = 0) => bytesHeld + moreBytes >= bytesMax,
    /** Whether the account of this body holds its part. */
    isAccountFull: ({ holder }: Held<More>) => holder.bytes >= accountBytesMax,
    begin(account: string, source: Source, more: More): Held<More> {
      const holder = holderOf(account);
      const body: Held<More> = { ...more, source, holder, bytes: 0, hasLeft: false };
      arriving.add(body);
      holder.arriving.add(body);
      return body;
    },
    /** Also takes bytes away, if they are fewer than none. */
    add(body: Held<More>, bytes: number): void {
      body.bytes += bytes;
      body.holder.bytes += bytes;
      bytesHeld += bytes;
    },
    /** Whether more of this body may arrive after this many further bytes. */
    mayContinue(body: Held<More>, moreBytes = 0): boolean {
      const { holder } = body;
      const hasRoom = bytesHeld + moreBytes < bytesMax || isFirst(arriving, body);
      return hasRoom && (holder.bytes + moreBytes < accountBytesMax || isFirst(holder.arriving, body));
    },
    arrived,
    leave(body: Held<More>): void {
      const { holder } = body;
      body.hasLeft = true;
      holder.bytes -= body.bytes;
      bytesHeld -= body.bytes;
      arrived(body);
      if (holder.bytes === 0 && holder.arriving.size === 0) holders.delete(holder.account);
    },
  };
}

function isFirst(items: ReadonlySet<unknown>, item: unknown): boolean {
  const [first] = items;
  return first === item;
}
