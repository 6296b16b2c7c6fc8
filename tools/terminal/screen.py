"""A terminal emulator with what `wf chat` needs: text, colours, cursor movement, erasing."""

import re
import unicodedata

# A complete escape sequence.
SEQUENCE = re.compile(r"\x1b(?:\[([?0-9;]*)([A-Za-z])|\][^\x07]*\x07|[=>78])")


class Screen:
    """Rows of (character, style); a style is the text of an SGR sequence, such as "1;36"."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[(" ", "")] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.style = ""
        self.rest = ""

    def feed(self, text):
        text, self.rest = self.rest + text, ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self.put(text[at])
                at += 1
                continue
            found = SEQUENCE.match(text, at)
            if not found:
                # The sequence is incomplete.
                self.rest = text[at:]
                return
            if found.group(2):
                self.obey(found.group(1), found.group(2))
            at = found.end()

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.new_line()
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif not unicodedata.category(character).startswith("C"):
            if self.column == self.columns:
                self.column = 0
                self.new_line()
            self.cells[self.row][self.column] = (character, self.style)
            self.column += 1

    def new_line(self):
        if self.row + 1 < self.rows:
            self.row += 1
        else:
            self.cells = self.cells[1:] + [[(" ", "")] * self.columns]

    def obey(self, parameters, command):
        if parameters.startswith("?"):
            return
        numbers = [int(number) for number in parameters.split(";") if number]
        count = numbers[0] if numbers else 1
        if command == "m":
            self.style = "" if parameters in ("", "0") else parameters
        elif command == "A":
            self.row = max(0, self.row - count)
        elif command == "B":
            self.row = min(self.rows - 1, self.row + count)
        elif command == "C":
            self.column = min(self.columns - 1, self.column + count)
        elif command == "D":
            self.column = max(0, self.column - count)
        elif command == "G":
            self.column = count - 1
        elif command == "K":
            self.cells[self.row][self.column:] = [(" ", "")] * (self.columns - self.column)
        elif command == "J":
            self.obey("", "K")
            for row in range(self.row + 1, self.rows):
                self.cells[row] = [(" ", "")] * self.columns

    def runs(self, row):
        """Returns a row as [(text, style)], without trailing blanks."""
        runs = []
        for character, style in self.cells[row]:
            if runs and runs[-1][1] == style:
                runs[-1] = (runs[-1][0] + character, style)
            else:
                runs.append((character, style))
        while runs and not runs[-1][0].strip():
            runs.pop()
        if runs:
            runs[-1] = (runs[-1][0].rstrip(), runs[-1][1])
        return tuple(runs)
