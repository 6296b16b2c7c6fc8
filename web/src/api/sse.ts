/** Server-sent events out of a stream of text, however it is cut. */

export class EventReader {
  private rest = "";

  /** The data of every event that this piece completes. */
  push(piece: string): string[] {
    this.rest += piece;
    const events: string[] = [];
    for (;;) {
      const end = /\r\n\r\n|\n\n|\r\r/.exec(this.rest);
      if (!end) return events;
      const data = dataOf(this.rest.slice(0, end.index));
      this.rest = this.rest.slice(end.index + end[0].length);
      if (data !== undefined) events.push(data);
    }
  }
}

/** The lines of data of one event, joined; nothing for comments alone. */
function dataOf(event: string): string | undefined {
  const lines = event
    .split(/\r\n|\n|\r/)
    .filter((line) => line === "data" || line.startsWith("data:"))
    .map((line) => line.slice(5).replace(/^ /, ""));
  return lines.length ? lines.join("\n") : undefined;
}
