/** Where a body comes from. It can be paused, like a request of Node. */
export type Source = { pause(): unknown; resume(): unknown };

type Sender = { account: string; bytes: number; arriving: Set<HeldBody> };

export type HeldBody = {
  source: Source;
  sender: Sender;
  bytes: number;
  /** The time after which the body is slow, unless more of it arrives before. */
  slowAt: number;
  pausedAt: number;
  pausedMs: number;
  makeRoom: AbortController | undefined;
  hasLeft: boolean;
};

export type HeldBodies = ReturnType<typeof createHeldBodies>;

/** Counts the bytes of the bodies that this process holds, in total and by account. Keeps the bodies that arrive in order. */
export function createHeldBodies(bytesMax: number) {
  const senderBytesMax = bytesMax / 4;
  const senders = new Map<string, Sender>();
  const arriving = new Set<HeldBody>();
  let bytesHeld = 0;

  function senderOf(account: string): Sender {
    const sender = senders.get(account) ?? { account, bytes: 0, arriving: new Set() };
    senders.set(account, sender);
    return sender;
  }

  function arrived(body: HeldBody): void {
    arriving.delete(body);
    body.sender.arriving.delete(body);
  }

  return {
    /** The bodies of which more may arrive, in the order in which they began. */
    arriving: arriving as ReadonlySet<HeldBody>,
    bytes: () => bytesHeld,
    isFull: (moreBytes = 0) => bytesHeld + moreBytes >= bytesMax,
    begin(account: string, source: Source, slowAt: number): HeldBody {
      const sender = senderOf(account);
      const body: HeldBody = {
        ...{ source, sender, bytes: 0, slowAt, pausedAt: 0, pausedMs: 0 },
        ...{ makeRoom: undefined, hasLeft: false },
      };
      arriving.add(body);
      sender.arriving.add(body);
      return body;
    },
    add(body: HeldBody, bytes: number): void {
      body.bytes += bytes;
      body.sender.bytes += bytes;
      bytesHeld += bytes;
    },
    /** Whether more of this body may arrive after this many further bytes. */
    mayContinue(body: HeldBody, moreBytes = 0): boolean {
      const { sender } = body;
      const hasRoom = bytesHeld + moreBytes < bytesMax || isFirst(arriving, body);
      return hasRoom && (sender.bytes + moreBytes < senderBytesMax || isFirst(sender.arriving, body));
    },
    arrived,
    leave(body: HeldBody): void {
      const { sender } = body;
      body.hasLeft = true;
      sender.bytes -= body.bytes;
      bytesHeld -= body.bytes;
      arrived(body);
      if (sender.bytes === 0 && sender.arriving.size === 0) senders.delete(sender.account);
    },
  };
}

function isFirst<Item>(items: ReadonlySet<Item>, item: Item): boolean {
  const [first] = items;
  return first === item;
}
