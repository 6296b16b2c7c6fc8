/** Parses server-sent events from text chunks of any size. */

export class EventReader {
  private rest = "";

  /** Returns the data of each event that this chunk completes. */
  push(chunk: string): string[] {
    this.rest += chunk;
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

/** Returns the joined data lines of one event, or undefined if it has none. */
function dataOf(event: string): string | undefined {
  const lines = event
    .split(/\r\n|\n|\r/)
    .filter((line) => line === "data" || line.startsWith("data:"))
    .map((line) => line.slice(5).replace(/^ /, ""));
  return lines.length ? lines.join("\n") : undefined;
}
